"""The log of a workload as a file."""

from functools import partial

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from accounts.actors import of_request
from capacity.logs import workload_log
from capacity.pages import PAGES
from clusters.services.logs import MAX_LINES
from common.pages.access import signed_in
from common.pages.logs import log_file


@require_safe
@signed_in
def workload_log_file(request: HttpRequest, pk: int) -> HttpResponse:
    """Download the end of the log of its latest run, or the lines of it that hold a text."""
    row = get_object_or_404(PAGES.rows(of_request(request)), pk=pk)
    read = partial(workload_log, row, lines=MAX_LINES)
    return log_file(request, f"{row.name}-run-{row.runs}", lambda text: read(text=text))
