"""Pages of alerts: the open ones by group, one of them, what was, and the checks."""

from urllib.parse import urlsplit

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from accounts.actors import of_request
from accounts.selectors import may_everywhere, may_for_owner
from accounts.states import Right
from alerts.checks import note_of, title_of
from alerts.filters import AlertFilter
from alerts.forms import SilenceForm
from alerts.models import AlertEvaluation, AlertGroup, RaisedAlert
from alerts.selectors import alerts_for, check_statuses, grouped, groups_for, open_at, silences_for
from alerts.services import care
from alerts.states import AlertState
from common.pages.access import address_of, signed_in
from common.pages.answers import done, page, refusals_at_the_form
from common.pages.forms import filled, reason_of
from common.pages.listing import list_page

PATH = "/alerts/"
MOST_SHOWN = 500
SORTS = {"began": "began_at", "name": "check_name", "state": "state", "severity": "severity"}


@require_safe
@signed_in
def overview(request: HttpRequest) -> HttpResponse:
    actor = of_request(request)
    groups = list(groups_for(actor)[:MOST_SHOWN])
    single = alerts_for(actor).in_bulk([group.first_id for group in groups if group.number == 1])
    silences = [
        (row, may_for_owner(actor, Right.ALERTS_WRITE, row.team)) for row in silences_for(actor)[:MOST_SHOWN]
    ]
    context = {
        "lines": [(group, title_of(group.check_name), single.get(group.first_id)) for group in groups],
        "number": sum(group.number for group in groups),
        "silences": silences,
        "tab": "open",
    }
    return page(request, "alerts/overview.html", context, parts=("alerts",))


@require_safe
@signed_in
def history(request: HttpRequest) -> HttpResponse:
    rows = alerts_for(of_request(request))
    listing = list_page(request, rows, sorts=SORTS, default_sort="-began", filters=AlertFilter)
    lines = [(row, title_of(row.check_name)) for row in listing.rows]
    context = {"listing": listing, "lines": lines, "tab": "history"}
    return page(request, "alerts/history.html", context, parts=("listing",))


@require_safe
@signed_in
def check_list(request: HttpRequest) -> HttpResponse:
    actor = of_request(request)
    row = AlertEvaluation.objects.first()
    context = {
        "statuses": check_statuses(actor, row.problems if row else {}),
        "evaluated_at": row.evaluated_at if row else None,
        "may_turn": may_everywhere(actor, Right.ALERTS_WRITE),
        "tab": "checks",
    }
    return page(request, "alerts/checks.html", context, parts=("checks",))


@require_safe
@signed_in
def here(request: HttpRequest) -> HttpResponse:
    """Say what is wrong with the thing whose page asks for this fragment."""
    found = open_at(of_request(request), urlsplit(address_of(request)).path)
    return page(request, "alerts/_here.html", {"groups": grouped(found)})


@require_safe
@signed_in
def one(request: HttpRequest, pk: int) -> HttpResponse:
    actor = of_request(request)
    row = get_object_or_404(alerts_for(actor), pk=pk)
    may_act = row.resolved_at is None and may_for_owner(actor, Right.ALERTS_WRITE, row.team)
    context = {
        "row": row,
        "title": title_of(row.check_name),
        "note": note_of(row.check_name),
        "like": alerts_for(actor).filter(group=row.group_id).exclude(pk=row.pk)[:20],
        "may_acknowledge": may_act and row.acknowledged_at is None,
        "may_silence": may_act and row.silenced_until is None,
        "silence_form": SilenceForm(),
    }
    return page(request, "alerts/alert.html", context, parts=("facts",))


@require_safe
@signed_in
def group(request: HttpRequest, pk: int) -> HttpResponse:
    actor = of_request(request)
    shown = groups_for(actor).filter(pk=pk).first()
    if shown is None:
        # It is over: what it was stands in the history.
        ended = get_object_or_404(AlertGroup.objects.for_actor(actor), pk=pk)
        return redirect(f"{PATH}history/?q={ended.check_name}")
    may_act = may_for_owner(actor, Right.ALERTS_WRITE, shown.team)
    context = {
        "group": shown,
        "title": title_of(shown.check_name),
        "note": note_of(shown.check_name),
        "rows": [
            (row, {name: value for name, value in row.labels.items() if name not in shown.labels})
            for row in alerts_for(actor).open().filter(group=shown).order_by("pk")[:MOST_SHOWN]
        ],
        "may_acknowledge": may_act and shown.firing,
        "may_silence": may_act and shown.state != AlertState.SILENCED,
        "silence_form": SilenceForm(),
    }
    return page(request, "alerts/group.html", context, parts=("facts",))


@require_POST
@signed_in
@refusals_at_the_form
def acknowledge_all(request: HttpRequest, pk: int) -> HttpResponse:
    actor = of_request(request)
    shown = get_object_or_404(groups_for(actor), pk=pk)
    care.acknowledge_group(shown, actor=actor, reason=reason_of(request, is_demanded=False))
    return done(request, _("The alerts are acknowledged."), to=f"{PATH}groups/{pk}/")


@require_POST
@signed_in
@refusals_at_the_form
def silence_all(request: HttpRequest, pk: int) -> HttpResponse:
    actor = of_request(request)
    shown = get_object_or_404(groups_for(actor), pk=pk)
    hours = filled(SilenceForm(request.POST)).cleaned_data["hours"]
    care.silence_group(shown, actor=actor, reason=reason_of(request), hours=hours)
    return done(request, _("The alerts are silenced."), to=f"{PATH}groups/{pk}/")


@require_POST
@signed_in
@refusals_at_the_form
def acknowledge(request: HttpRequest, pk: int) -> HttpResponse:
    row = _row(request, pk)
    care.acknowledge_alert(row, actor=of_request(request), reason=reason_of(request, is_demanded=False))
    return done(request, _("The alert is acknowledged."), to=f"{PATH}{pk}/")


@require_POST
@signed_in
@refusals_at_the_form
def silence(request: HttpRequest, pk: int) -> HttpResponse:
    row = _row(request, pk)
    hours = filled(SilenceForm(request.POST)).cleaned_data["hours"]
    care.silence_alert(row, actor=of_request(request), reason=reason_of(request), hours=hours)
    return done(request, _("The alert is silenced."), to=f"{PATH}{pk}/")


@require_POST
@signed_in
@refusals_at_the_form
def end_silence(request: HttpRequest, pk: int) -> HttpResponse:
    actor = of_request(request)
    row = get_object_or_404(silences_for(actor), pk=pk)
    care.end_silence(row, actor=actor, reason=reason_of(request, is_demanded=False))
    return done(request, _("The silence is ended."), to=PATH)


@require_POST
@signed_in
@refusals_at_the_form
def turn(request: HttpRequest, name: str) -> HttpResponse:
    on = request.POST.get("on") == "yes" or request.GET.get("on") == "yes"
    care.turn_check(name, actor=of_request(request), on=on, reason=reason_of(request, is_demanded=not on))
    return done(request, _("The check was changed."), to=f"{PATH}checks/")


def _row(request: HttpRequest, pk: int) -> RaisedAlert:
    return get_object_or_404(alerts_for(of_request(request)), pk=pk)
