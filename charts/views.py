"""The page of charts of one thing, over one stretch of time that its address says."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from accounts.actors import of_request
from charts.subjects import charts_of, subject_named
from charts.time_range import LENGTHS, lengths, times_of
from common import clock
from common.pages.access import signed_in
from common.pages.answers import page
from gateway.errors import GatewayError


@require_safe
@signed_in
def charts(request: HttpRequest, kind: str, name: str) -> HttpResponse:
    """`?range=6h`, or `?from=` and `?to=`."""
    actor = of_request(request)
    subject = subject_named(kind, name, actor)
    times = times_of(request.GET, now=clock.now())
    length = times.until - times.since
    try:
        shown, problem = charts_of(subject, actor, times), times.problem
    except GatewayError as error:
        shown, problem = [], str(error)
    context = {
        "subject": subject,
        "times": times,
        "problem": problem,
        "lengths": list(lengths() if subject.scraped else LENGTHS),
        "charts": shown,
        "marks": shown[0][1].marks if shown else (),
        "earlier": (times.since - length, times.since),
        "later": None if times.name else (times.until, min(times.until + length, clock.now())),
    }
    return page(request, "charts/charts.html", context, parts=("charts",))
