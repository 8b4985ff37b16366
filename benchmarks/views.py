"""Pages of benchmarks: the list, a new one, one of them, two of its configurations beside each other."""

from typing import Any

from django.db.models import Count, Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.actors import of_request
from accounts.selectors import may
from accounts.states import Right
from benchmarks import panels, planning, selectors, services
from benchmarks.filters import BenchmarkFilter
from benchmarks.forms import FIELD_OF, NewBenchmarkForm
from benchmarks.models import Benchmark, BenchmarkCell
from benchmarks.states import ARRIVALS, BENCHMARK_ENDED, RUN_ENDED, BenchmarkState, RunState
from benchmarks.system_panel import system_charts
from common.errors import SlipwayError
from common.pages.access import signed_in
from common.pages.answers import UNPROCESSABLE, done, page, refusals_at_the_form
from common.pages.forms import blame, reason_of
from common.pages.listing import list_page

SORTS = {"name": "name", "state": "state", "team": "team__name", "created": "created_at"}


@require_safe
@signed_in
def benchmark_list(request: HttpRequest) -> HttpResponse:
    actor = of_request(request)
    rows = Benchmark.objects.for_actor(actor).select_related("team", "cluster")
    rows = rows.annotate(
        run_count=Count("runs"), done_count=Count("runs", filter=Q(runs__state__in=RUN_ENDED))
    )
    listing = list_page(request, rows, sorts=SORTS, default_sort="-created", filters=BenchmarkFilter)
    context = {"listing": listing, "may_add": may(actor, Right.BENCHMARKS_WRITE)}
    return page(request, "benchmarks/benchmarks.html", context, parts=("listing",))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new_benchmark(request: HttpRequest) -> HttpResponse:
    """The first button shows what would run; the second one begins it."""
    actor = of_request(request)
    form = NewBenchmarkForm(request.POST if request.method == "POST" else None, actor=actor)
    plan = None
    if form.is_bound and form.is_valid():
        try:
            if "preview" in request.POST:
                plan = planning.plan_benchmark(actor=actor, **form.order())
            else:
                row = services.create_benchmark(actor=actor, name=form.cleaned_data["name"], **form.order())
                return done(request, _("%(row)s has begun.") % {"row": row}, to=f"/benchmarks/{row.pk}/")
        except SlipwayError as error:
            blame(form, error, FIELD_OF)
    context = {"form": form, "plan": plan, "may_add": may(actor, Right.BENCHMARKS_WRITE)}
    status = UNPROCESSABLE if form.is_bound and plan is None else 200
    return page(request, "benchmarks/new_benchmark.html", context, status=status)


@require_safe
@signed_in
def benchmark_page(request: HttpRequest, pk: int) -> HttpResponse:
    row = _row(request, pk)
    context = {
        "benchmark": row,
        "outcome": panels.outcome_of(row),
        "arrivals": ARRIVALS[row.scenario.load.arrivals],
        "is_open": row.state not in BENCHMARK_ENDED,
        "may_cancel": row.state == BenchmarkState.RUNNING
        and may(of_request(request), Right.BENCHMARKS_WRITE, row.team),
        **_system(request, row),
    }
    return page(request, "benchmarks/benchmark.html", context, parts=("result", "system"))


@require_POST
@signed_in
@refusals_at_the_form
def cancel(request: HttpRequest, pk: int) -> HttpResponse:
    row = _row(request, pk)
    services.cancel_benchmark(row, actor=of_request(request), reason=reason_of(request, is_demanded=False))
    return done(request, _("%(row)s is being cancelled.") % {"row": row}, to=f"/benchmarks/{pk}/")


@require_safe
@signed_in
def compare(request: HttpRequest, pk: int) -> HttpResponse:
    """`?ours=3&theirs=4`: each figure of one configuration over the other's."""
    row = _row(request, pk)
    cells = list(row.cells.select_related("version__model", "image"))
    ours, theirs = (
        _cell(cells, request.GET.get(name, ""), place) for place, name in enumerate(("ours", "theirs"))
    )
    context = {
        "benchmark": row,
        "cells": cells,
        "ours": ours,
        "theirs": theirs,
        "ratios": panels.comparisons(row, ours, theirs),
    }
    return page(request, "benchmarks/compare.html", context)


def _system(request: HttpRequest, row: Benchmark) -> dict[str, Any]:
    """Return the charts of the run that `?run=` names, else of the best configuration's last valid one."""
    runs = selectors.sampled_runs(row)
    best = row.conclusion.get("best")
    asked = next((run for run in runs if str(run.pk) == request.GET.get("run")), None)
    of_best = [run for run in runs if run.cell_id == best and run.state == RunState.VALID]
    run = asked or next(reversed(of_best or runs), None)
    charts = system_charts(run, run.system.content, row.scenario.load) if run else []
    return {"sampled_runs": runs, "sampled_run": run, "system_charts": charts}


def _row(request: HttpRequest, pk: int) -> Benchmark:
    rows = Benchmark.objects.for_actor(of_request(request)).select_related("team", "cluster", "scenario")
    row: Benchmark = get_object_or_404(rows, pk=pk)
    return row


def _cell(cells: list[BenchmarkCell], given: str, place: int) -> BenchmarkCell:
    if not given and len(cells) > place:
        return cells[place]
    found = next((cell for cell in cells if str(cell.pk) == given), None)
    if found is None:
        raise Http404
    return found
