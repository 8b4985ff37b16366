"""What workloads write: read where they run, and once they have ended, from what they left there."""

from functools import partial

from capacity.disruption import run_name
from capacity.models import Workload
from clusters.services.logs import log_of_run, matching_log
from common.errors import Unavailable


def workload_log(row: Workload, *, lines: int, text: str = "") -> str:
    """The end of what its latest run has written, or the lines of it that hold a text; never of a run before.

    Raises Unavailable.
    """
    if not row.runs:
        return ""
    read = partial(log_of_run, row.pool.cluster, workload=run_name(row), run=row.runs)
    try:
        found = matching_log(lambda most: read(lines=most), lines=lines, text=text)
    except Unavailable:
        if row.holds_cards:
            raise
        found = ""
    if found or row.holds_cards:
        return found
    kept = row.log_tail.splitlines()
    return matching_log(lambda most: "\n".join(kept[-most:]), lines=lines, text=text)
