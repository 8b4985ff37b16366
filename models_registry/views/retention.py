"""A model's retention rule: what it would delete, and letting it do so."""

from collections.abc import Callable
from typing import Any

from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from accounts.actors import of_request
from common.errors import Missing, SlipwayError
from common.languages import Text
from common.pages.access import signed_in
from common.pages.answers import UNPROCESSABLE, done, page, refusals_at_the_form
from common.pages.forms import blame, filled, reason_of
from models_registry import retention
from models_registry.forms.retention import RetentionApplyForm, RetentionForm
from models_registry.models import Model, RetentionRule
from models_registry.selectors import retention as retention_selectors
from models_registry.services import retention as retention_services
from models_registry.views.models import frame, visible_model

VERSIONS_SHOWN = 500


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def retention_page(request: HttpRequest, name: str) -> HttpResponse:
    """The rule, and what it would do now."""
    actor = of_request(request)
    model = visible_model(actor, name)
    rule = _rule(model)
    initial = {"keep_last": rule.keep_last, "keep_days": rule.keep_days} if rule else {"keep_days": 30}
    form = RetentionForm(request.POST if request.method == "POST" else None, initial=initial)
    draft: RetentionRule | None = None
    if form.is_bound and form.is_valid() and request.POST.get("do") == "preview":
        draft = RetentionRule(model=model, **form.cleaned_data)
    elif form.is_bound and form.is_valid():
        try:
            retention_services.set_retention(actor=actor, model=model, **form.cleaned_data)
        except (SlipwayError, ValidationError) as error:
            blame(form, error)
        else:
            return done(
                request, _("The rule is saved. Nothing is deleted before you apply it."), to=request.path
            )
    context = frame(actor, model) | {"form": form, "rule": rule, "draft": draft}
    if shown := draft or rule:
        preview = retention_selectors.retention_preview(shown, timezone.now())
        context |= {
            "preview": preview,
            "verdicts": preview.verdicts[:VERSIONS_SHOWN],
            "says": retention.in_words(shown.keep_last, shown.keep_days),
            "is_moving": shown.asked is not None and shown.stuck_at is None,
            "apply_form": RetentionApplyForm(initial={"preview": preview.fingerprint}, auto_id="apply_%s"),
        }
    status = UNPROCESSABLE if form.is_bound and draft is None else 200
    return page(request, "models_registry/retention.html", context, parts=("now",), status=status)


Wish = Callable[..., Any]
WISHES: dict[str, tuple[Wish, Text]] = {
    "apply": (retention_services.apply_retention, gettext_lazy("The rule is being applied.")),
    "stop": (retention_services.stop_retention, gettext_lazy("Deletion has stopped; the rule stays.")),
    "delete": (
        retention_services.delete_retention,
        gettext_lazy("The rule is deleted: every version is kept."),
    ),
}


@require_POST
@signed_in
@refusals_at_the_form
def act(request: HttpRequest, name: str, wish: str) -> HttpResponse:
    if wish not in WISHES:
        raise Http404
    actor = of_request(request)
    rule = retention_selectors.retention_rule(visible_model(actor, name))
    why = reason_of(request, is_demanded=wish != "delete")
    given = filled(RetentionApplyForm(request.POST)).cleaned_data if wish == "apply" else {}
    service, words = WISHES[wish]
    service(actor=actor, rule=rule, reason=why, **given)
    return done(request, words, to=f"/models/{name}/+retention/")


def _rule(model: Model) -> RetentionRule | None:
    try:
        return retention_selectors.retention_rule(model)
    except Missing:
        return None
