"""Whether a service that is loaded still keeps what its own users need, by the counts of its workers.

Requests of load generators say that a client chose the version (`CHOSEN_BY_HEADER`), so that neither these
counts nor those of a release have them.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.utils.translation import gettext as _

from benchmarks.service_target import ServiceTarget
from gateway.history import packed_histogram, unpacked_histogram
from gateway.latency import Histogram, quantile_ms, since, total
from gateway.worker_figures import WorkerFigures

LOOK_BACK = timedelta(seconds=10)
LEAST_REQUESTS = 10
"""With fewer since the last look it looks further back."""


def judged(
    target: ServiceTarget, before: Mapping[str, Any], now: Mapping[str, WorkerFigures], at: datetime
) -> tuple[dict[str, Any], str]:
    """Return the readings that the next look compares with, and which limit is broken; empty: none.

    Each timing of a side has a reading of its own: one that few requests have does not hold another's back.
    `before`: what the last call returned; empty: there was none.
    """
    kept: dict[str, Any] = {}
    for side, figures in now.items():
        for name, limit in (("ttft", target.ttft_ms), ("tpot", target.tpot_ms)):
            counted = figures.timings.get(name)
            if limit is None or not counted:
                continue
            key = f"{side} {name}"
            early = before.get(key)
            if early is None or early["epoch"] != figures.epoch:
                kept[key] = _reading(figures.epoch, counted, at)
                continue
            kept[key] = early
            lately = since(unpacked_histogram(early["counts"]), counted)
            if at - datetime.fromisoformat(early["at"]) < LOOK_BACK or total(lately) < LEAST_REQUESTS:
                continue
            kept[key] = _reading(figures.epoch, counted, at)
            value = quantile_ms(lately, target.share)
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
                return kept, said % told
    return kept, ""


def _reading(epoch: str, counted: Histogram, at: datetime) -> dict[str, Any]:
    return {"at": at.isoformat(), "epoch": epoch, "counts": packed_histogram(counted)}
