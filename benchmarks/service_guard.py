"""Whether a service that is loaded still keeps what its own users need, by the counts of its workers.

Requests of load generators say that a client chose the version (`CHOSEN_BY_HEADER`), so that neither these
counts nor those of a release have them.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.utils.translation import gettext as _

from benchmarks.service_target import ServiceTarget
from gateway.latency import quantile_ms, since, total
from gateway.worker_figures import WorkerFigures, packed_figures, unpacked_figures

LOOK_BACK = timedelta(seconds=10)
LEAST_REQUESTS = 10
"""With fewer since the last look it looks further back."""


def judged(
    target: ServiceTarget, before: Mapping[str, Any], now: Mapping[str, WorkerFigures], at: datetime
) -> tuple[dict[str, Any], str]:
    """Return the reading that the next look compares with, and which limit is broken; empty: none.

    `before`: what the last call returned; empty: there was none.
    """
    fresh = {"at": at.isoformat(), "figures": packed_figures(now)}
    if not before:
        return fresh, ""
    if at - datetime.fromisoformat(before["at"]) < LOOK_BACK:
        return dict(before), ""
    is_enough = True
    for side, early in unpacked_figures(before["figures"]).items():
        late = now.get(side)
        if late is None or late.epoch != early.epoch:
            continue
        for name, limit in (("ttft", target.ttft_ms), ("tpot", target.tpot_ms)):
            counted = since(early.timings.get(name, ()), late.timings.get(name, ()))
            if limit is None:
                continue
            if total(counted) < LEAST_REQUESTS:
                is_enough = False
                continue
            value = quantile_ms(counted, target.share)
            if value is not None and value > limit:
                said = _(
                    "Stopped: %(share)s of the service's own requests must keep a %(name)s of %(limit)s ms; "
                    "it was %(value)s ms."
                )
                told = {
                    "share": f"{target.share:.0%}",
                    "name": name.upper(),
                    "limit": f"{limit:g}",
                    "value": f"{value:.0f}",
                }
                return fresh, said % told
    return (fresh if is_enough else dict(before)), ""
