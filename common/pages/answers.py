"""What a page answers: itself, one of its parts, "done", or why it was refused.

The id of the element that htmx will replace is the name of the part: a request with `HX-Target: listing`
for a page with the part `listing` gets `{% partialdef listing %}` of the same template, nothing else does.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec
from urllib.parse import urlsplit

from django.contrib import messages
from django.forms import Form
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.utils.cache import patch_vary_headers
from django.utils.http import url_has_allowed_host_and_scheme

from common.characters import marked
from common.errors import Invalid, SlipwayError
from common.languages import Text
from common.pages.badges import Tone

P = ParamSpec("P")
UNPROCESSABLE = 422


def is_part_request(request: HttpRequest) -> bool:
    """Whether htmx asks for a part; a history restore asks for the whole page."""
    return bool(request.headers.get("HX-Request")) and not request.headers.get("HX-History-Restore-Request")


def page(
    request: HttpRequest,
    template: str,
    context: Mapping[str, Any] | None = None,
    *,
    parts: Sequence[str] = (),
    status: int = 200,
) -> HttpResponse:
    """The whole page, or the one of its `parts` that htmx wants to replace; asked for anew each time, unless
    the view says otherwise."""
    wanted = request.headers.get("HX-Target", "") if is_part_request(request) else ""
    name = f"{template}#{wanted}" if wanted in parts else template
    response = render(request, name, dict(context or {}), status=status)
    patch_vary_headers(response, ["HX-Request", "HX-Target"])
    response["Cache-Control"] = "private, no-cache"
    return response


def dialog_fields(request: HttpRequest, form: Form) -> HttpResponse:
    """Return the fields that `{% confirm fields_from=... %}` asks for when its dialog is opened."""
    return page(request, "components/fields.html", {"form": form})


def back(request: HttpRequest, default: str = "/") -> str:
    """Return the page that the person came from, when it is one of this console."""
    came_from = request.headers.get("Referer", "")
    if not url_has_allowed_host_and_scheme(
        came_from, {request.get_host()}, require_https=request.is_secure()
    ):
        return default
    parts = urlsplit(came_from)
    return parts.path + (f"?{parts.query}" if parts.query else "")


def done(request: HttpRequest, text: Text, *, to: str | None = None, tone: Tone = "good") -> HttpResponse:
    """The change is made: say so in a toast, and show `to`, or what the page now looks like."""
    if not is_part_request(request):
        messages.add_message(request, messages.INFO, str(text), extra_tags=tone)
        return HttpResponseRedirect(to or back(request))
    if to is not None:
        messages.add_message(request, messages.INFO, str(text), extra_tags=tone)
        return HttpResponse(status=204, headers={"HX-Redirect": to})
    event = {"slipway:done": {"text": marked(str(text)), "tone": tone}}
    return HttpResponse(status=204, headers={"HX-Trigger": json.dumps(event)})


def refused(
    request: HttpRequest,
    reason: str,
    *,
    advice: str = "",
    fields: Mapping[str, Sequence[str]] | None = None,
    status: int = UNPROCESSABLE,
) -> HttpResponse:
    """The change is not made: say why at the form (its `[data-problem]`), or in a toast if it has none.

    `fields` of the form (name -> sentences) say at their place what is wrong with them; `reason` stands for
    those that the form does not have.
    """
    if not is_part_request(request):
        messages.add_message(request, messages.ERROR, f"{reason} {advice}".strip(), extra_tags="bad")
        return HttpResponseRedirect(back(request))
    context = {"title": reason, "text": advice, "tone": "bad"}
    response = render(request, "components/problem.html", context, status=status)
    response["HX-Slipway-Refused"] = "1"
    if fields:
        response["HX-Slipway-Faults"] = json.dumps(fields, default=list)
    # A form inherits what the page around it selects of its own refreshes: these words are none of it.
    response["HX-Reselect"] = "unset"
    return response


def refusals_at_the_form(
    view: Callable[Concatenate[HttpRequest, P], HttpResponseBase],
) -> Callable[Concatenate[HttpRequest, P], HttpResponseBase]:
    """A view that lets a domain error out answers with its words, where the person's eye is."""

    @wraps(view)
    def answered(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        try:
            return view(request, *args, **kwargs)
        except SlipwayError as error:
            fields = error.fields if isinstance(error, Invalid) else {}
            return refused(request, _in_words(error), fields=fields)

    return answered


def _in_words(error: SlipwayError) -> str:
    """Return its words without the name that programs have for its one wrong field: a dialog has another."""
    if isinstance(error, Invalid) and len(error.fields) == 1:
        return str(error).removeprefix(f"{next(iter(error.fields))}: ")
    return str(error)
