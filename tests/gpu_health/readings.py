"""Readings that tests judge."""

from gpu_health.signals.reading import GpuReading, ReadingClock, ReadingKind, ReadingSource, details

GPU = "0000:9b:00"


def xid(number: int, at: float = 0.0, *, gpu: str = GPU, **more: str) -> GpuReading:
    return seen(f"xid.{number}", at, gpu=gpu, **more)


def seen(
    fault: str,
    at: float = 0.0,
    *,
    gpu: str = "",
    value: float | None = None,
    source: ReadingSource = ReadingSource.KERNEL_LOG,
    kind: ReadingKind = ReadingKind.FAULT,
    **more: str,
) -> GpuReading:
    return GpuReading(
        source=source,
        fault=fault,
        kind=kind,
        at=at,
        clock=ReadingClock.EPOCH,
        gpu_bus_id=gpu,
        value=value,
        details=details(more),
    )


def asks_for(action: int, at: float = 0.0, *, gpu: str = GPU) -> GpuReading:
    return seen("gpu.recovery_action", at, gpu=gpu, value=float(action), action=str(action))
