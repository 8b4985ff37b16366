"""The incidents behind the statistics, for a spreadsheet."""

import csv
import io
from collections.abc import Iterator
from typing import Any

from gpu_health.incident_statistics import StatisticsResult
from gpu_health.policy.presets import fault_title
from gpu_health.statistics.figures import HOUR, cost_of

COLUMNS = (
    *("incident", "cluster", "machine", "gpu_model", "gpus", "fault", "title", "state"),
    *("first_seen", "opened", "out_of_service", "returned"),
    *("seconds_to_detect", "seconds_to_quarantine", "seconds_to_repair"),
    *("actions", "lost_gpu_hours", "cost", "currency"),
)
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet would compute; names and faults are written by others."""


def csv_of(answer: StatisticsResult) -> Iterator[str]:
    """Lines, the heading first; lost time and cost within the window that was asked about."""
    text = io.StringIO()
    writer = csv.writer(text)

    def line(cells: Any) -> str:
        text.seek(0)
        text.truncate()
        writer.writerow([_cell(one) for one in cells])
        return text.getvalue()

    yield line(COLUMNS)
    window = answer.question.window
    for one in answer.cases:
        cost = cost_of(one, answer.prices, window)
        yield line(
            (
                *(one.incident, one.cluster, one.node, one.gpu_model, one.gpus, one.fault),
                *(fault_title(one.fault), one.state),
                *(one.seen_at, one.found_at, one.out[0].begin if one.out else None, one.returned_at),
                *(one.time_to_detect, one.time_to_quarantine, one.time_to_repair),
                *(one.actions, round(one.lost(window) / HOUR, 4)),
                *((round(cost.amount, 4), answer.currency) if cost.is_known else ("", "")),
            )
        )


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    if hasattr(value, "total_seconds"):
        return f"{value.total_seconds():.3f}"
    text = str(value)
    return f"'{text}" if text.startswith(FORMULA) else text
