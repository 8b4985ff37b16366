"""The answer of the statistics as a document."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from gpu_health.incident_statistics import StatisticsResult
from gpu_health.policy.presets import fault_title
from gpu_health.statistics.figures import HOUR, IncidentFigures

MOST_MACHINES = 100


def document_of(answer: StatisticsResult) -> dict[str, Any]:
    found = answer.report
    window = answer.question.window
    return {
        "since": window.since,
        "until": window.until,
        "currency": answer.currency,
        "availability": found.overall.share,
        "total": _figures(found.total),
        "faults": [
            {"fault": fault, "title": fault_title(fault), **_figures(one)}
            for fault, one in found.by_fault.items()
        ],
        "gpu_models": list(_models(answer)),
        "machines": [
            {
                "node_id": pk,
                "node": answer.nodes[pk].node,
                "cluster": answer.nodes[pk].cluster,
                "is_lemon": pk in answer.lemons,
                **_figures(one),
            }
            for pk, one in list(found.by_node.items())[:MOST_MACHINES]
        ],
        "over_time": [
            {
                "since": one.window.since,
                "until": one.window.until,
                "availability": {model: there.share for model, there in one.availability.items()},
                "lost_gpu_hours": {fault: lost / HOUR for fault, lost in one.lost.items()},
            }
            for one in found.moments
        ],
    }


def _models(answer: StatisticsResult) -> Iterator[dict[str, Any]]:
    known = answer.report.availability
    for model in sorted({*known, *answer.report.by_model}):
        there = known.get(model)
        yield {
            "gpu_model": model,
            "gpus": there.gpus if there else 0,
            "gpu_hours": there.total / HOUR if there else 0.0,
            "availability": there.share if there else None,
            **_figures(answer.report.by_model.get(model, IncidentFigures.none())),
        }


def _figures(found: IncidentFigures) -> dict[str, Any]:
    return {
        **{one.name: getattr(found, one.name) for one in fields(found)},
        "lost_gpu_hours": found.lost_gpu_hours,
        "unpriced_gpu_hours": found.cost.unpriced / HOUR,
    }
