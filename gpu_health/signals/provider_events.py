"""What providers of machines announce, in the shapes of AWS, Azure, Google Cloud and Volcengine.

Only shapes: whoever hands a document over has checked whose it is.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from gpu_health.signals.reading import (
    LATEST,
    GpuReading,
    ReadingClock,
    ReadingKind,
    ReadingSource,
    clean,
    details,
)

MAX_EVENTS = 500
MAINTENANCE, HOST_FAILURE, REDEPLOY = "provider.maintenance", "provider.host_failure", "provider.redeploy"
AWS: Mapping[str, str] = {
    "instance-reboot": MAINTENANCE,
    "system-reboot": MAINTENANCE,
    "system-maintenance": MAINTENANCE,
    "instance-stop": HOST_FAILURE,
    "instance-retirement": HOST_FAILURE,
}
AZURE: Mapping[str, str] = {
    "Freeze": MAINTENANCE,
    "Reboot": MAINTENANCE,
    "Redeploy": REDEPLOY,
    "Preempt": HOST_FAILURE,
    "Terminate": HOST_FAILURE,
}
GCP: Mapping[str, str] = {
    "compute.instances.upcomingMaintenance": MAINTENANCE,
    "compute.instances.terminateOnHostMaintenance": HOST_FAILURE,
    "compute.instances.hostError": HOST_FAILURE,
}
OVER = frozenset({"completed", "canceled", "cancelled", "succeeded", "avoided", "rejected"})


class NotAnEvent(ValueError):
    """The document has none of the shapes; the text says which were looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderEvent:
    """`machine` as the provider calls it; blank: the one that was asked. `begins_at` 0: not said."""

    provider: str
    fault: str
    event_id: str
    machine: str
    begins_at: float
    is_over: bool
    says: str

    def reading(self, at: float, *, node: str = "") -> GpuReading:
        more = {"provider": self.provider, "event": self.event_id}
        if self.begins_at:
            more["begins_at"] = datetime.fromtimestamp(self.begins_at, UTC).isoformat()
        return GpuReading(
            source=ReadingSource.PROVIDER,
            fault=self.fault,
            kind=ReadingKind.CLEARED if self.is_over else ReadingKind.FAULT,
            at=at,
            clock=ReadingClock.EPOCH,
            node=node,
            details=details(more),
            raw=clean(self.says),
            origin=f"{self.provider}/{self.event_id}/{'over' if self.is_over else 'on'}"[:120],
        )


def events_of(document: Any) -> list[ProviderEvent]:
    """All events of one document. Raises NotAnEvent; an entry of a kind that is not known is left out."""
    for is_shape, read in _SHAPES:
        if is_shape(document):
            return list(read(document))[:MAX_EVENTS]
    raise NotAnEvent(
        "This is no event of a provider: a list of AWS or an event of AWS Health, a document of Azure with "
        "Events, an audit entry of Google Cloud with protoPayload, an answer of Volcengine with "
        "SystemEvents, or an object with events of our own form."
    )


def _aws(document: list[Any]) -> Iterator[ProviderEvent]:
    for entry in _objects(document):
        fault = AWS.get(str(entry.get("Code", "")))
        if fault and entry.get("EventId"):
            yield _event(
                "aws", fault, entry["EventId"], "", entry.get("NotBefore"), entry.get("State"), entry
            )


AWS_HEALTH: Mapping[str, str] = {
    "AWS_EC2_INSTANCE_REBOOT_MAINTENANCE_SCHEDULED": MAINTENANCE,
    "AWS_EC2_SYSTEM_REBOOT_MAINTENANCE_SCHEDULED": MAINTENANCE,
    "AWS_EC2_SYSTEM_MAINTENANCE_EVENT": MAINTENANCE,
    "AWS_EC2_INSTANCE_NETWORK_MAINTENANCE_SCHEDULED": MAINTENANCE,
    "AWS_EC2_INSTANCE_POWER_MAINTENANCE_SCHEDULED": MAINTENANCE,
    "AWS_EC2_INSTANCE_STOP_SCHEDULED": HOST_FAILURE,
    "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED": HOST_FAILURE,
    "AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED": HOST_FAILURE,
    "AWS_EC2_INSTANCE_AUTO_RECOVERY_FAILURE": HOST_FAILURE,
}
"""Codes of AWS Health events, which EventBridge delivers."""


def _aws_health(document: Mapping[str, Any]) -> Iterator[ProviderEvent]:
    detail = document["detail"]
    fault = AWS_HEALTH.get(str(detail.get("eventTypeCode", "")))
    name = str(detail.get("eventArn", "")).rpartition("/")[2] or document.get("id")
    entities = detail.get("affectedEntities")
    if not fault or not name or not isinstance(entities, list):
        return
    for entity in _objects(entities):
        machine, state = str(entity.get("entityValue", "")), detail.get("statusCode")
        is_over = "completed" if state == "closed" or entity.get("status") == "RESOLVED" else ""
        yield _event("aws", fault, name, machine, detail.get("startTime"), is_over, detail)


def _own(document: Mapping[str, Any]) -> Iterator[ProviderEvent]:
    """Read events in our own field names, from whoever translates another provider's."""
    for entry in _objects(document["events"]):
        fault, name = str(entry.get("fault", "")), entry.get("id")
        if fault in (MAINTENANCE, HOST_FAILURE, REDEPLOY) and name:
            provider = clean(str(entry.get("provider", "")), 30) or "own"
            machine, when = str(entry.get("machine", "")), entry.get("begins_at")
            yield _event(provider, fault, name, machine, when, entry.get("state"), entry)


def _azure(document: Mapping[str, Any]) -> Iterator[ProviderEvent]:
    for entry in _objects(document["Events"]):
        fault = AZURE.get(str(entry.get("EventType", "")))
        if fault and entry.get("EventId"):
            machines = entry.get("Resources")
            for machine in machines if isinstance(machines, list) and machines else [""]:
                when, state = entry.get("NotBefore"), entry.get("EventStatus")
                yield _event("azure", fault, entry["EventId"], str(machine), when, state, entry)


def _gcp(document: Mapping[str, Any]) -> Iterator[ProviderEvent]:
    payload = document["protoPayload"]
    fault = GCP.get(str(payload.get("methodName", "")))
    metadata = payload.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    if fault:
        machine = str(payload.get("resourceName", "")).rpartition("/")[2]
        name = document.get("insertId") or f"{machine}/{metadata.get('windowStartTime', '')}"
        when, state = metadata.get("windowStartTime"), metadata.get("maintenanceStatus")
        yield _event("gcp", fault, name, machine, when, state, payload)


def _volcengine(document: Mapping[str, Any]) -> Iterator[ProviderEvent]:
    for entry in _objects(_volcengine_events(document)):
        kind = str(entry.get("Type", ""))
        if kind.startswith("SystemFailure"):
            fault = HOST_FAILURE
        elif kind.endswith("_Redeploy"):
            fault = REDEPLOY
        elif kind.startswith(("SystemMaintenance", "InstanceMaintenance")):
            fault = MAINTENANCE
        else:
            continue
        if entry.get("Id"):
            machine, when = str(entry.get("ResourceId", "")), entry.get("OperatedStartAt")
            yield _event("volcengine", fault, entry["Id"], machine, when, entry.get("Status"), entry)


def _volcengine_events(document: Any) -> list[Any]:
    result = document.get("Result", document) if isinstance(document, Mapping) else None
    found = result.get("SystemEvents") if isinstance(result, Mapping) else None
    return found if isinstance(found, list) else []


def _event(
    provider: str, fault: str, name: Any, machine: str, when: Any, state: Any, entry: Mapping[str, Any]
) -> ProviderEvent:
    said = " ".join(f"{key}={value}" for key, value in entry.items() if isinstance(value, str | int))
    return ProviderEvent(
        provider=provider,
        fault=fault,
        event_id=clean(str(name), 80),
        machine=clean(machine, 253),
        begins_at=_seconds(when),
        is_over=str(state or "").lower() in OVER,
        says=said,
    )


def _seconds(when: Any) -> float:
    """0: not said, or in no form that providers use."""
    if not isinstance(when, str) or not when:
        return 0.0
    try:
        moment = datetime.fromisoformat(when)
    except ValueError:
        try:
            moment = parsedate_to_datetime(when)
        except (ValueError, TypeError):
            return 0.0
    try:
        at = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return 0.0
    return at if 0 <= at < LATEST else 0.0


def _objects(entries: Any) -> Iterator[Mapping[str, Any]]:
    yield from (entry for entry in entries[:MAX_EVENTS] if isinstance(entry, Mapping))


_SHAPES: tuple[tuple[Callable[[Any], bool], Callable[[Any], Iterator[ProviderEvent]]], ...] = (
    (lambda document: isinstance(document, list), _aws),
    (lambda document: isinstance(document, Mapping) and isinstance(document.get("Events"), list), _azure),
    (
        lambda document: isinstance(document, Mapping) and isinstance(document.get("protoPayload"), Mapping),
        _gcp,
    ),
    (lambda document: bool(_volcengine_events(document)), _volcengine),
    (
        lambda document: (
            isinstance(document, Mapping)
            and document.get("source") == "aws.health"
            and isinstance(document.get("detail"), Mapping)
        ),
        _aws_health,
    ),
    (lambda document: isinstance(document, Mapping) and isinstance(document.get("events"), list), _own),
)
