"""Pages of optimised versions: the list, a new run, one of them."""

from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.actors import of_request
from accounts.selectors import may
from accounts.states import Right
from common.actor import Actor
from common.errors import SlipwayError
from common.pages.access import signed_in
from common.pages.answers import UNPROCESSABLE, done, page, refusals_at_the_form
from common.pages.forms import blame, reason_of
from common.pages.listing import list_page
from optimization import budgets, documents, panels, planning, services
from optimization.canary import canary_links
from optimization.filters import OptimizationRunFilter
from optimization.forms import NewRunForm
from optimization.models import AccuracyCheck, OptimizationRun
from optimization.recipes import recipes
from optimization.states import ENDED, UNDER_WAY, OptimizationState
from optimization.verdicts import measured_on

SORTS = {"name": "name", "state": "state", "team": "team__name", "created": "created_at"}


@require_safe
@signed_in
def run_list(request: HttpRequest) -> HttpResponse:
    actor = of_request(request)
    listing = list_page(
        request, _rows(actor), sorts=SORTS, default_sort="-created", filters=OptimizationRunFilter
    )
    context = {"listing": listing, "may_add": may(actor, Right.OPTIMIZATIONS_WRITE)}
    return page(request, "optimization/optimizations.html", context, parts=("listing",))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new_run(request: HttpRequest) -> HttpResponse:
    """The first button shows what it would need; the second one begins it."""
    actor = of_request(request)
    given = request.POST if request.method == "POST" else None
    initial = {name: value for name, value in request.GET.items() if value}
    form = NewRunForm(given, actor=actor, initial=initial)
    plans: list[planning.RunPlan] = []
    if form.is_bound and form.is_valid():
        try:
            order: dict[str, Any] = {"actor": actor, **form.order()}
            batch: dict[str, Any] = {**order, "recipes": form.recipes, **form.budget}
            if "preview" in request.POST:
                plans = services.plan_batch(**batch)
            else:
                name = form.cleaned_data["name"]
                if form.is_batch:
                    row = services.start_batch(name=name, **batch)[0]
                else:
                    row = services.start_run(name=name, recipe=form.recipes[0], **order)
                return done(request, _("%(row)s has begun.") % {"row": row}, to=f"/optimizations/{row.pk}/")
        except SlipwayError as error:
            blame(form, error, {})
    context = {
        "form": form,
        "plans": [documents.plan_document(one) for one in plans],
        "recipes": [documents.recipe_document(one) for one in recipes().values()],
        "may_add": may(actor, Right.OPTIMIZATIONS_WRITE),
    }
    status = UNPROCESSABLE if form.is_bound and not plans else 200
    return page(request, "optimization/new_optimization.html", context, status=status)


@require_safe
@signed_in
def run_page(request: HttpRequest, pk: int) -> HttpResponse:
    actor = of_request(request)
    row = _row(request, pk)
    check = AccuracyCheck.objects.filter(run=row).first()
    recipe = row.known_recipe
    has_passed = row.state == OptimizationState.PASSED and row.child is not None
    context = {
        "run": row,
        "recipe_title": documents.in_language(recipe.title) if recipe else row.recipe,
        "stage": panels.progress_text(row),
        "check": check,
        "verdicts": panels.verdict_lines(check) if check else [],
        "speed": panels.speed_lines(row, "parent"),
        "batching": panels.speed_lines(row, "static"),
        "canaries": canary_links(actor, row.child) if has_passed and row.child else [],
        "may_cancel": row.state in UNDER_WAY and may(actor, Right.OPTIMIZATIONS_WRITE, row.team),
        "warnings": planning.warnings_about(row.parent),
        "is_ended": row.state in ENDED,
        "measured_on": measured_on(row),
        "batch": budgets.batch_document(row),
        **panels.family_context(actor, row),
    }
    return page(request, "optimization/optimization.html", context, parts=("result",))


@require_POST
@signed_in
@refusals_at_the_form
def cancel(request: HttpRequest, pk: int) -> HttpResponse:
    row = _row(request, pk)
    services.cancel_run(row, actor=of_request(request), reason=reason_of(request, is_demanded=False))
    return done(request, _("%(row)s is being cancelled.") % {"row": row}, to=f"/optimizations/{pk}/")


def _rows(actor: Actor) -> QuerySet[OptimizationRun]:
    rows = OptimizationRun.objects.for_actor(actor)
    return rows.select_related("team", "parent__model", "child__model", "child__parent", "benchmark")


def _row(request: HttpRequest, pk: int) -> OptimizationRun:
    row: OptimizationRun = get_object_or_404(_rows(of_request(request)), pk=pk)
    return row
