"""How a drill went: what was seen when, and whether it was judged as the rules say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from gpu_health.models import Drill, Finding, Incident, StoredReading

COMPARED = ("outcome", "severity", "ladder", "drain")


@dataclass(frozen=True, slots=True)
class DrillProgress:
    """The rows that a drill has led to so far."""

    reading: StoredReading | None
    finding: Finding | None
    """Of the fault that must be found."""
    incident: Incident | None


def followed(drill: Drill) -> DrillProgress:
    readings = StoredReading.objects.filter(drill=drill)
    findings = Finding.objects.filter(drill=drill)
    incidents = Incident.objects.filter(drill=drill)
    fault = drill.expected.get("fault", "")
    return DrillProgress(
        readings.filter(fault=fault).order_by("received_at", "pk").first(),
        findings.filter(fault=fault).order_by("opened_at", "pk").first(),
        incidents.order_by("pk").first(),
    )


def differences(drill: Drill, finding: Finding) -> list[dict[str, Any]]:
    """`{what, expected, found}` each: where the finding is not what the rules said."""
    return [
        {"what": name, "expected": drill.expected.get(name), "found": getattr(finding, name)}
        for name in COMPARED
        if drill.expected.get(name) != getattr(finding, name)
    ]


def report(drill: Drill) -> dict[str, Any]:
    """`steps`: `{name, words, at, seconds}` each, seconds since the fault was there; the figures in seconds,
    None: it did not come to that.
    """
    seen = followed(drill)
    steps: list[dict[str, Any]] = []

    def step(name: str, words: str, at: datetime | None) -> None:
        if at is not None:
            steps.append({"name": name, "words": words, "at": at.isoformat(), "seconds": _since(drill, at)})

    step("ordered", f"{drill.ordered_by} ordered it.", drill.ordered_at)
    step("played", "The fault is there.", drill.played_at)
    if seen.reading is not None:
        step("seen", seen.reading.raw or seen.reading.fault, seen.reading.received_at)
    if seen.finding is not None:
        step("found", f"{seen.finding.severity}: {' > '.join(seen.finding.ladder)}", seen.finding.opened_at)
    for entry in seen.incident.timeline.order_by("pk") if seen.incident else ():
        step(entry.state, entry.words, entry.at)
    incident = seen.incident
    return {
        "steps": steps,
        "verdict": {
            "expected": drill.expected,
            "found": _verdict(seen.finding),
            "differences": differences(drill, seen.finding) if seen.finding else [],
        },
        "detected_seconds": _since(drill, seen.finding.opened_at) if seen.finding else None,
        "quarantined_seconds": _since(drill, incident.quarantined_at if incident else None),
        "repaired_seconds": _since(drill, incident.returned_at if incident else None),
        "spent_seconds": _spent(steps),
    }


def _verdict(finding: Finding | None) -> Mapping[str, Any] | None:
    if finding is None:
        return None
    return {"fault": finding.fault, "rule": finding.rule} | {
        name: getattr(finding, name) for name in COMPARED
    }


def _since(drill: Drill, at: datetime | None) -> float | None:
    if at is None or drill.played_at is None:
        return None
    return round((at - drill.played_at).total_seconds(), 2)


def _spent(steps: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Seconds in each state of the incident, of those that it has left."""
    spent: dict[str, float] = {}
    for before, after in pairwise(steps):
        if before["seconds"] is not None and after["seconds"] is not None:
            taken = after["seconds"] - before["seconds"]
            spent[before["name"]] = round(spent.get(before["name"], 0.0) + taken, 2)
    return spent
