"""Pages of service level objectives: their budgets, one of them over its window, and its form."""

from datetime import UTC, datetime

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.actors import of_request
from accounts.selectors import may
from accounts.states import Right
from common import clock
from common.errors import SlipwayError
from common.pages.access import signed_in
from common.pages.answers import UNPROCESSABLE, done, page, refusals_at_the_form
from common.pages.charts import Chart, Limit, Series
from common.pages.forms import blame, reason_of
from common.pages.listing import list_page
from objectives import services
from objectives.budget import remaining_by_hour
from objectives.filters import ObjectiveFilter
from objectives.forms import NewObjectiveForm, ObjectiveForm
from objectives.models import ServiceObjective
from objectives.selectors import objectives_for

PATH = "/objectives/"
SORTS = {"name": "name", "service": "service__name", "target": "target_percent"}


@require_safe
@signed_in
def overview(request: HttpRequest) -> HttpResponse:
    actor = of_request(request)
    listing = list_page(
        request, objectives_for(actor), sorts=SORTS, default_sort="service", filters=ObjectiveFilter
    )
    context = {"listing": listing, "may_add": may(actor, Right.SERVICES_WRITE)}
    return page(request, "objectives/overview.html", context, parts=("listing",))


@require_safe
@signed_in
def one(request: HttpRequest, pk: int) -> HttpResponse:
    actor = of_request(request)
    row = _row(request, pk)
    context = {
        "row": row,
        "budget": row.budget,
        "chart": _chart(row),
        "may_change": may(actor, Right.SERVICES_WRITE, row.team),
    }
    return page(request, "objectives/objective.html", context, parts=("now",))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new_objective(request: HttpRequest) -> HttpResponse:
    """`?service=` preselects one."""
    actor = of_request(request)
    given = request.POST if request.method == "POST" else None
    form = NewObjectiveForm(given, actor=actor, initial={"service": request.GET.get("service")})
    if form.is_bound and form.is_valid():
        try:
            row = services.create_objective(actor=actor, **form.cleaned_data)
        except SlipwayError as error:
            blame(form, error)
        else:
            return done(request, _("%(row)s was created.") % {"row": row}, to=f"{PATH}{row.pk}/")
    context = {
        "form": form,
        "title": _("New objective"),
        "submit": _("Create"),
        "back": PATH,
        "may_write": may(actor, Right.SERVICES_WRITE),
    }
    status = UNPROCESSABLE if form.is_bound else 200
    return page(request, "objectives/form.html", context, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def settings(request: HttpRequest, pk: int) -> HttpResponse:
    actor = of_request(request)
    row = _row(request, pk)
    form = ObjectiveForm.of(row, request.POST if request.method == "POST" else None)
    address = f"{PATH}{row.pk}/"
    if form.is_bound and form.is_valid():
        try:
            services.change_objective(row, actor=actor, **form.cleaned_data)
        except SlipwayError as error:
            blame(form, error)
        else:
            return done(request, _("%(row)s was changed.") % {"row": row}, to=address)
    context = {
        "form": form,
        "title": row.name,
        "submit": _("Save"),
        "back": address,
        "may_write": may(actor, Right.SERVICES_WRITE, row.team),
    }
    status = UNPROCESSABLE if form.is_bound else 200
    return page(request, "objectives/form.html", context, status=status)


@require_POST
@signed_in
@refusals_at_the_form
def delete(request: HttpRequest, pk: int) -> HttpResponse:
    row = _row(request, pk)
    services.delete_objective(row, actor=of_request(request), reason=reason_of(request, is_demanded=False))
    return done(request, _("%(row)s was deleted.") % {"row": row.name}, to=PATH)


def _row(request: HttpRequest, pk: int) -> ServiceObjective:
    return get_object_or_404(objectives_for(of_request(request)), pk=pk)


def _chart(row: ServiceObjective) -> Chart:
    hours = remaining_by_hour(row.hour_counts, target_percent=row.target_percent)
    now = clock.now()
    return Chart(
        title=_("Error budget left"),
        moments=[datetime.fromtimestamp(hour * 3600, UTC) for hour, _left in hours],
        series=[Series(_("Left"), [left for _hour, left in hours], "stable", fill=True)],
        unit="percent",
        limits=[Limit(_("used up"), 0.0, "bad")],
        maximum=1,
        since=now - row.window,
        until=now,
    )
