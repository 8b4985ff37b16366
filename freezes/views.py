"""Pages of freezes: what holds now, the times of the next weeks, and the form of a window."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.actors import of_request
from accounts.selectors import may, may_for_owner
from accounts.states import Right
from common.errors import SlipwayError
from common.pages.access import signed_in
from common.pages.answers import UNPROCESSABLE, done, page, refusals_at_the_form
from common.pages.forms import blame, reason_of
from freezes import services
from freezes.forms import FreezeForm, StopForm
from freezes.scopes import concerns_nothing
from freezes.selectors import freezes_for, upcoming

PATH = "/releases/freezes/"
DAYS = 42


@require_safe
@signed_in
def overview(request: HttpRequest) -> HttpResponse:
    actor = of_request(request)
    rows = list(freezes_for(actor))
    entries = upcoming(rows, days=DAYS)
    listed = [
        {
            "freeze": row,
            "entries": [entry for entry in entries if entry.freeze is row],
            "concerns_nothing": concerns_nothing(row),
            "may_end": may_for_owner(
                actor, Right.FREEZES_STOP if row.is_stop else Right.FREEZES_WRITE, row.team
            ),
        }
        for row in rows
    ]
    context = {
        "listed": listed,
        "entries": entries,
        "days": DAYS,
        "may_add": may(actor, Right.FREEZES_WRITE),
        "may_stop": may(actor, Right.FREEZES_STOP),
    }
    return page(request, "freezes/overview.html", context, parts=("freezes",))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new_freeze(request: HttpRequest) -> HttpResponse:
    actor = of_request(request)
    form = FreezeForm(request.POST if request.method == "POST" else None, actor=actor)
    if form.is_bound and form.is_valid():
        try:
            row = services.create_freeze(actor=actor, **form.columns())
        except SlipwayError as error:
            blame(form, error, {"minutes": "hours"})
        else:
            return done(request, _("The window %(name)s was created.") % {"name": row.name}, to=PATH)
    context = {
        "form": form,
        "title": _("New freeze window"),
        "submit": _("Create"),
        "may_add": may(actor, Right.FREEZES_WRITE),
    }
    return page(request, "freezes/form.html", context, status=UNPROCESSABLE if form.is_bound else 200)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def stop(request: HttpRequest) -> HttpResponse:
    actor = of_request(request)
    form = StopForm(request.POST if request.method == "POST" else None, actor=actor)
    if form.is_bound and form.is_valid():
        try:
            services.stop_releases(actor=actor, **form.cleaned_data)
        except SlipwayError as error:
            blame(form, error)
        else:
            return done(request, _("Releases are stopped; rollbacks go on."), to=PATH)
    context = {
        "form": form,
        "title": _("Stop releases"),
        "lead": _(
            "No release starts or advances until the stop is ended. Traffic stays as it is, bad candidates "
            "are still rolled back, and rollbacks by people go on."
        ),
        "submit": _("Stop releases"),
        "tone": "bad",
        "may_add": may(actor, Right.FREEZES_STOP),
    }
    return page(request, "freezes/form.html", context, status=UNPROCESSABLE if form.is_bound else 200)


@require_POST
@signed_in
@refusals_at_the_form
def end(request: HttpRequest, pk: int) -> HttpResponse:
    actor = of_request(request)
    row = get_object_or_404(freezes_for(actor), pk=pk)
    services.remove_freeze(row, actor=actor, reason=reason_of(request, is_demanded=False))
    return done(request, _("%(name)s is ended; releases may continue.") % {"name": row.name}, to=PATH)
