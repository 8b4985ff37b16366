"""Statistics of healing: how fast, how often, at what cost; and what an hour of a GPU costs."""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse, QueryDict, StreamingHttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_safe

from accounts.actors import of_request
from accounts.selectors import may_everywhere
from accounts.states import Right
from clusters.models import Cluster, Gpu
from clusters.states import GpuState
from common.audit import MAX_REASON
from common.errors import SlipwayError
from common.pages.access import signed_in
from common.pages.answers import UNPROCESSABLE, done, page
from common.pages.forms import PLAIN, blame
from common.pages.listing import row_page
from gpu_health import statistics_page as shown
from gpu_health.errors import InvalidQuestion
from gpu_health.filters import StatisticsFilter
from gpu_health.incident_statistics import StatisticsResult, prices, statistics
from gpu_health.models import Incident
from gpu_health.questions import question_of
from gpu_health.services.prices import set_prices
from gpu_health.statistics_csv import csv_of

SORTS = {
    "incidents": lambda row: row.figures.incidents,
    "detect": lambda row: row.figures.detect.mean,
    "repair": lambda row: row.figures.repair.mean,
    "lost": lambda row: row.figures.lost,
    "fault": lambda row: row.name,
}
BLANK_ROWS = 3
COLUMNS = (
    (
        "gpu_model",
        gettext_lazy("GPU model"),
        {"list": "gpu-models", "placeholder": gettext_lazy("every model")},
    ),
    ("cluster", gettext_lazy("Cluster"), {"list": "clusters", "placeholder": gettext_lazy("every cluster")}),
    ("per_hour", gettext_lazy("Price per GPU hour"), {"inputmode": "decimal"}),
)


@require_safe
@signed_in
def statistics_page(request: HttpRequest) -> HttpResponse:
    """`?span=7d`, `since`, `until`, `cluster`, `gpu_model`, `fault`."""
    answer, filters, faults = _answer(request)

    def url_of(**narrowed: str) -> str:
        query = request.GET.copy()
        query.pop("page", None)
        for name, value in narrowed.items():
            query[name] = value
        return f"?{query.urlencode()}"

    listing = row_page(
        request,
        shown.fault_rows(answer, url_of),
        sorts=SORTS,
        default_sort="-incidents",
        filters=filters,
        faults=faults,
        size=100,
    )
    context = {
        "listing": listing,
        "answer": answer,
        "total": answer.report.total,
        "lost": shown.hours(answer.report.total.lost_gpu_hours),
        "availability": answer.report.overall,
        "cost": shown.money(answer.report.total.cost, answer.currency),
        "has_prices": bool(answer.prices),
        "models": shown.model_rows(answer, url_of),
        "machines": shown.machine_rows(answer),
        "charts": {
            "availability": shown.availability_chart(answer),
            "lost": shown.loss_chart(answer),
        },
        "query": request.GET.urlencode(),
    }
    return page(request, "gpu_health/statistics.html", context, parts=("listing",))


@require_safe
@signed_in
def export(request: HttpRequest) -> StreamingHttpResponse:
    """The incidents behind the page, with the same parameters."""
    answer, _filters, _faults = _answer(request)
    response = StreamingHttpResponse(csv_of(answer), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="gpu-incidents.csv"'
    response["Cache-Control"] = "no-store"
    return response


class PricesForm(forms.Form):
    """A form with a row for each price, and some more; a row without a price is none."""

    currency = forms.CharField(
        label=gettext_lazy("Currency"), max_length=3, widget=forms.TextInput(attrs={**PLAIN, "size": 4})
    )
    revision = forms.IntegerField(widget=forms.HiddenInput, min_value=0)
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=MAX_REASON,
        help_text=gettext_lazy("Recorded in the audit log."),
    )

    def __init__(self, data: QueryDict | None, *, clusters: list[str], models: list[str]) -> None:
        stored = prices()
        super().__init__(data, initial={"currency": stored.currency, "revision": stored.revision})
        count = len(stored.prices) + BLANK_ROWS
        if data is not None:
            count = min(250, max(count, sum(name.startswith("per_hour-") for name in data)))
        known = [*models, *(one.gpu_model for one in stored.entries)]
        self.numbers = range(count)
        for number in self.numbers:
            one = stored.prices[number] if number < len(stored.prices) else {}
            for name, label, widget in COLUMNS:
                self.fields[f"{name}-{number}"] = forms.CharField(
                    label=label,
                    required=False,
                    max_length=100,
                    initial=one.get(name, ""),
                    widget=forms.TextInput(attrs={**PLAIN, **widget}),
                )
        self.models = sorted(set(known) - {""})
        self.clusters = clusters

    @property
    def rows(self) -> list[list[Any]]:
        return [[self[f"{name}-{number}"] for name, *_rest in COLUMNS] for number in self.numbers]

    @property
    def given(self) -> list[dict[str, str]]:
        rows = [
            {name: self.cleaned_data[f"{name}-{number}"] for name, *_rest in COLUMNS}
            for number in self.numbers
        ]
        return [row for row in rows if any(row.values())]


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def prices_page(request: HttpRequest) -> HttpResponse:
    actor = of_request(request)
    present = Gpu.objects.exclude(state=GpuState.GONE).filter(cluster__in=Cluster.objects.for_actor(actor))
    form = PricesForm(
        request.POST if request.method == "POST" else None,
        clusters=list(Cluster.objects.for_actor(actor).order_by("name").values_list("name", flat=True)),
        models=list(present.order_by("name").values_list("name", flat=True).distinct()),
    )
    if form.is_bound and form.is_valid():
        try:
            set_prices(
                actor=actor,
                currency=form.cleaned_data["currency"].strip().upper(),
                prices=form.given,
                reason=form.cleaned_data["reason"],
                expected=form.cleaned_data["revision"],
            )
        except SlipwayError as error:
            blame(form, error)
        else:
            return done(request, _("The prices are set."), to="/gpu-health/statistics/")
    context = {
        "form": form,
        "stored": prices(),
        "may_change": may_everywhere(actor, Right.FLEET_OPERATE),
    }
    status = UNPROCESSABLE if form.is_bound and form.errors else 200
    return page(request, "gpu_health/prices.html", context, status=status)


def _answer(request: HttpRequest) -> tuple[StatisticsResult, StatisticsFilter, list[tuple[Any, str]]]:
    """Return the statistics asked for; what makes no sense is left out and named among the faults."""
    filters = StatisticsFilter(request.GET, queryset=Incident.objects.none(), request=request)
    form = filters.form
    form.is_valid()
    chosen: Mapping[str, Any] = getattr(form, "cleaned_data", {})
    faults: list[tuple[Any, str]] = []
    try:
        question = question_of(chosen)
    except InvalidQuestion as error:
        faults = [(form.fields[name].label, text) for name, told in error.fields.items() for text in told]
        question = question_of({name: value for name, value in chosen.items() if name not in TIME})
    return statistics(of_request(request), question), filters, faults


TIME = ("span", "since", "until")
