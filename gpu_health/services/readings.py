"""What machines report: stored once, and judged at once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Max
from django.utils.translation import gettext as _

from clusters.models import Node
from common import clock, events
from gpu_health import selectors
from gpu_health.clock_offsets import FAULT as CLOCK
from gpu_health.clock_offsets import in_our_time, offset_of, told
from gpu_health.drills.marks import drill_of
from gpu_health.errors import MachineMissing
from gpu_health.events import FindingEnded, FindingOpened
from gpu_health.evidence import TooMuchEvidence
from gpu_health.incident_facts import boot_of
from gpu_health.judge import FaultVerdict, VerdictOutcome, judge
from gpu_health.models import Drill, Finding, StoredReading
from gpu_health.services.gpu_counts import note_reported
from gpu_health.services.incidents import consider
from gpu_health.signals.reading import BadReading, GpuReading, ReadingClock, ReadingKind
from gpu_health.states import FindingOutcome, FindingState

MAX_READINGS = 500
AHEAD = timedelta(minutes=5)
"""So far a machine's clock may be ahead of ours before we take ours."""


@dataclass(frozen=True, slots=True)
class ReadingRefusal:
    entry: int
    """Index within what was sent."""
    reason: str


@dataclass(frozen=True, slots=True)
class ReadingReceipt:
    stored: int
    known: int
    """That came before."""
    refused: Sequence[ReadingRefusal]


def accept_readings(
    *,
    cluster_id: int,
    node_uid: str,
    entries: Iterable[Any],
    sent_at: float | None = None,
    boot: str = "",
) -> ReadingReceipt:
    """Store what a machine reports of itself and judge it. What is no reading is refused, the others stored.

    `sent_at`: seconds since the epoch by its clock, as it sent them; `boot`: its start as it sent them.
    Raises MachineMissing while the cluster does not show the machine.
    """
    node = Node.objects.filter(cluster_id=cluster_id, uid=node_uid).first()
    if node is None:
        raise MachineMissing(
            _("The cluster shows no machine %(node)s yet: send the readings again in a moment.")
            % {"node": node_uid}
        )
    readings, refused = [], []
    for index, entry in enumerate(entries):
        try:
            reading = GpuReading.from_dict(entry)
            if not reading.origin:
                raise BadReading(
                    "origin is missing: name the place within the source, so that it counts once"
                )
        except BadReading as error:
            refused.append(ReadingRefusal(index, f"{error}."))
        else:
            readings.append(reading)
    now = clock.now()
    offset = offset_of(sent_at, now)
    stored = store_readings(node, in_our_time(readings, offset, now), boot=boot)
    note_reported(node, readings, now)
    if sent_at is not None:
        _tell_of_clock(node, offset, now)
    return ReadingReceipt(stored, len(readings) - stored, refused)


def _tell_of_clock(node: Node, offset: float, now: datetime) -> None:
    known = Finding.objects.filter(node=node, fault=CLOCK, state=FindingState.OPEN).exists()
    if (reading := told(offset, now, is_known=known)) is not None:
        store_readings(node, [reading])


def store_readings(node: Node, readings: Sequence[GpuReading], *, boot: str = "") -> int:
    """Store readings and judge the machine by new ones; return how many are new. `boot`: see `judge_node`."""
    now = clock.now()
    readings = _counting(node, readings)
    with transaction.atomic():
        known = set(
            StoredReading.objects.filter(node=node, origin__in=[one.origin for one in readings]).values_list(
                "source", "origin"
            )
        )
        new = {(one.source, one.origin): one for one in readings if (one.source, one.origin) not in known}
        StoredReading.objects.bulk_create(
            [_row(node, reading, now) for reading in new.values()], ignore_conflicts=True
        )
        if new:
            judge_node(node, boot=boot)
    return len(new)


def _counting(node: Node, readings: Sequence[GpuReading]) -> list[GpuReading]:
    """Without what a drill has played that is not under way on this machine: that counts no more."""
    marked = [drill_of(one) for one in readings]
    if not any(marked):
        return list(readings)
    present = set(Drill.objects.filter(node=node, ended_at=None).values_list("pk", flat=True))
    return [one for one, drill in zip(readings, marked, strict=True) if drill is None or drill in present]


def judge_node(node: Node, *, opens: bool = True, boot: str = "") -> None:
    """Findings of a machine, by the readings of the last 30 days that no closed finding has counted. `opens`:
    new ones, too. `boot`: its present start, where it was told otherwise than by its cluster."""
    with transaction.atomic():
        rows = list(selectors.readings_of(node))
        if not rows:
            return
        ended = {
            (row["fault"], row["device"]): row["to"]
            for row in Finding.objects.filter(node=node, state=FindingState.CLOSED)
            .values("fault", "device")
            .annotate(to=Max("judged_to"))
        }
        book, state = selectors.rule_book(node.cluster), selectors.node_state(node, boot=boot)
        buses = {uuid: bus for bus, uuid in state.uuids.items()}

        def counts(row: StoredReading) -> bool:
            device = row.gpu_bus_id or buses.get(row.gpu_uuid, row.gpu_uuid)
            return bool(row.pk > ended.get((row.fault, device), 0))

        try:
            verdicts = judge((row.reading() for row in rows if counts(row)), book.rules, state)
        except TooMuchEvidence:
            return
        last = max(row.pk for row in rows)
        for verdict in verdicts:
            _note(node, verdict, opens=opens, judged_to=last, rule_book=book.digest)
        consider(node, boot=boot)


def _note(node: Node, verdict: FaultVerdict, *, opens: bool, **judged: Any) -> None:
    """`judged`: to which reading, and by which rule book."""
    finding = Finding.objects.filter(
        node=node, fault=verdict.fault, device=verdict.device, state=FindingState.OPEN
    ).first()
    if verdict.outcome in (VerdictOutcome.NONE, VerdictOutcome.WAIT):
        if finding is not None:
            _end(finding, verdict)
        return
    values: dict[str, Any] = {
        "gpu_uuid": verdict.gpu_uuid,
        "severity": str(verdict.severity),
        "outcome": FindingOutcome(str(verdict.outcome)),
        "ladder": [str(action) for action in verdict.ladder],
        "drain": str(verdict.drain),
        "verification": str(verdict.verification),
        "rule": verdict.rule,
        "citation": verdict.citation[:500],
        "reasons": list(verdict.reasons),
        "count": verdict.count,
        "first_at": datetime.fromtimestamp(verdict.first.at, UTC),
        "last_at": datetime.fromtimestamp(verdict.last.at, UTC),
        "raw": verdict.last.raw,
        "boot_id": boot_of(verdict.last),
        "drill_id": drill_of(verdict.last) if drill_of(verdict.first) else None,
        **judged,
    }
    if finding is not None:
        Finding.objects.filter(pk=finding.pk, state=FindingState.OPEN).update(**values)
        return
    if not opens:
        return
    opened = Finding.objects.create(node=node, fault=verdict.fault, device=verdict.device, **values)
    events.publish(FindingOpened(opened.pk))


def _end(finding: Finding, verdict: FaultVerdict) -> None:
    rows = Finding.objects.filter(pk=finding.pk, state=FindingState.OPEN)
    reasons = list(verdict.reasons)
    # Why, where it is not its source that says so.
    why = "" if verdict.last.kind is ReadingKind.CLEARED else reasons[-1]
    if rows.update(state=FindingState.CLEARED, ended_at=clock.now(), reasons=reasons, close_reason=why):
        events.publish(FindingEnded(finding.pk))


def _row(node: Node, reading: GpuReading, now: datetime) -> StoredReading:
    at = datetime.fromtimestamp(reading.at, UTC) if reading.clock is ReadingClock.EPOCH else now
    return StoredReading(
        node=node,
        source=reading.source,
        fault=reading.fault,
        kind=reading.kind,
        at=now if at > now + AHEAD else at,
        gpu_bus_id=reading.gpu_bus_id,
        gpu_uuid=reading.gpu_uuid,
        value=reading.value,
        details=dict(reading.details),
        raw=reading.raw,
        origin=reading.origin,
        boot_id=reading.boot,
        received_at=now,
        drill_id=drill_of(reading),
    )
