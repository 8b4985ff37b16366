"""Reports of usage: a table, a chart, a file."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from accounts.actors import of_request
from common import clock
from common.pages.access import signed_in
from common.pages.answers import UNPROCESSABLE, page
from common.pages.charts import Chart, Series
from usage.forms import UsageForm
from usage.selectors import COLUMNS, UsageQuery, currency, usage_report
from usage.states import UsageGroup, UsageMeasure

TOKENS = ("prompt_tokens", "completion_tokens")
MOST_EMPTY = timedelta(days=366)


@require_safe
@signed_in
def report(request: HttpRequest) -> HttpResponse:
    form = UsageForm(request.GET)
    context: dict[str, Any] = {"form": form, "currency": currency(), "address": request.GET.urlencode()}
    if form.is_valid():
        actor = of_request(request)
        rows = usage_report(actor, form.query())
        days = usage_report(actor, form.query(by=UsageGroup.DAY))
        measure = UsageMeasure(form.cleaned_data["measure"])
        context |= {
            "lines": [(_name_of(row), row) for row in rows],
            "group": UsageGroup(form.cleaned_data["by"]).label,
            "chart": _chart(measure, days, form.query()) if days else None,
        }
    return page(request, "usage/report.html", context, status=200 if form.is_valid() else UNPROCESSABLE)


@require_safe
@signed_in
def as_csv(request: HttpRequest) -> HttpResponse:
    """The same rows by day, team, service, version and key."""
    form = UsageForm(request.GET)
    if not form.is_valid():
        return HttpResponse(form.errors.as_text(), status=UNPROCESSABLE, content_type="text/plain")
    query = form.query()
    rows = usage_report(of_request(request), replace(query, by=tuple(UsageGroup.values)))
    answer = HttpResponse(content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="usage-{query.since}-{query.until}.csv"'
    columns = ["day", "team", "service", "version", "key", *COLUMNS]
    writer = csv.DictWriter(answer, columns)
    writer.writeheader()
    writer.writerows(rows)
    return answer


def _name_of(row: Mapping[str, Any]) -> str:
    found = [str(value) for name, value in row.items() if name not in COLUMNS and value]
    return " ".join(found) or _("without a key")


def _chart(measure: UsageMeasure, days: Sequence[Mapping[str, Any]], query: UsageQuery) -> Chart:
    """Return the days of the query; those before the first use are left out where they are many."""
    names = TOKENS if measure == UsageMeasure.TOKENS else (measure,)
    used = {row["day"]: float(sum(row[name] for name in names)) for row in days}
    last = max(min(query.until, clock.now().date()), max(used))
    first = min(max(query.since, last - MOST_EMPTY), min(used))
    each = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    values = [used.get(day, 0.0) for day in each]
    moments = [datetime.combine(day, time(), UTC) for day in each]
    return Chart(str(measure.label), moments, [Series(str(measure.label), values, fill=True)], minimum=0)
