"""Readings that tests judge."""

from gpu_health.signals.reading import Clock, Kind, Reading, Source, details

GPU = "0000:9b:00"


def xid(number: int, at: float = 0.0, *, gpu: str = GPU, **more: str) -> Reading:
    return seen(f"xid.{number}", at, gpu=gpu, **more)


def seen(
    fault: str,
    at: float = 0.0,
    *,
    gpu: str = "",
    value: float | None = None,
    source: Source = Source.KERNEL_LOG,
    kind: Kind = Kind.FAULT,
    **more: str,
) -> Reading:
    return Reading(
        source=source,
        fault=fault,
        kind=kind,
        at=at,
        clock=Clock.EPOCH,
        gpu_bus_id=gpu,
        value=value,
        details=details(more),
    )


def asks_for(action: int, at: float = 0.0, *, gpu: str = GPU) -> Reading:
    return seen("gpu.recovery_action", at, gpu=gpu, value=float(action), action=str(action))
