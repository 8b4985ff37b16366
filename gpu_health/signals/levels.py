"""What sources that are asked again and again say: a reading when something begins, one when it is over."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpu_health.signals.reading import (
    LEVEL,
    NOTHING,
    SOURCE_STATE,
    GpuReading,
    ReadingClock,
    ReadingKind,
    ReadingSource,
    clean,
    details,
)


@dataclass(frozen=True, slots=True)
class ReadingDevice:
    """The device of a reading; all blank: the whole machine."""

    bus_id: str = ""
    uuid: str = ""
    part: str = ""
    """A link, a port: what is told apart within the device."""


MACHINE = ReadingDevice()


@dataclass
class Levels:
    """Faults that are present, and the last value of every counter. `session` makes origins unique."""

    source: ReadingSource
    session: str
    node: str = ""
    _on: set[tuple[str, ReadingDevice]] = field(default_factory=set)
    _told: set[ReadingDevice] = field(default_factory=set)
    _last: dict[tuple[str, ReadingDevice], tuple[float, float]] = field(default_factory=dict)

    @property
    def present(self) -> frozenset[tuple[str, ReadingDevice]]:
        """The faults that are present now."""
        return frozenset(self._on)

    def level(
        self, fault: str, device: ReadingDevice, is_on: bool, at: float, *, raw: str = "",
        kind: ReadingKind = ReadingKind.FAULT, value: float | None = None,
        more: Mapping[str, object] = NOTHING,
    ) -> list[GpuReading]:  # fmt: skip
        """A fault when it begins, its end when it ends, nothing in between."""
        key = (fault, device)
        if is_on == (key in self._on):
            return []
        (self._on.add if is_on else self._on.discard)(key)
        said = kind if is_on else ReadingKind.CLEARED
        return [self.reading(fault, device, at, raw=raw, kind=said, value=value, more={**more, LEVEL: "yes"})]

    def all_told(self, device: ReadingDevice, at: float) -> list[GpuReading]:
        """Once in a session: what is so of this device has been told; what was so before it is over."""
        if device in self._told:
            return []
        self._told.add(device)
        return [self.reading(SOURCE_STATE, device, at, kind=ReadingKind.FACT)]

    def changed(self, name: str, device: ReadingDevice, value: float, at: float) -> float | None:
        """The value before, if there was another one; None at the first look, too."""
        before = self._last.get((name, device))
        self._last[name, device] = (at, value)
        return before[1] if before is not None and before[1] != value else None

    def rise(self, name: str, device: ReadingDevice, value: float, at: float) -> tuple[float, float] | None:
        """Return a counter's rise and its seconds; None: no rise, or the counter fell and began anew."""
        before = self._last.get((name, device))
        self._last[name, device] = (at, value)
        if before is None or value <= before[1] or at <= before[0]:
            return None
        return value - before[1], at - before[0]

    def rise_over(
        self, name: str, device: ReadingDevice, value: float, at: float, seconds: float
    ) -> float | None:
        """Return a counter's rise since a look at least `seconds` ago; None: no rise, or too early."""
        before = self._last.get((name, device))
        if before is not None and at - before[0] < seconds and value >= before[1]:
            return None
        self._last[name, device] = (at, value)
        return value - before[1] if before is not None and value > before[1] else None

    def reading(
        self, fault: str, device: ReadingDevice, at: float, *, raw: str = "",
        kind: ReadingKind = ReadingKind.FAULT, value: float | None = None,
        more: Mapping[str, object] = NOTHING,
    ) -> GpuReading:  # fmt: skip
        told = {**more, "part": device.part}
        place = "/".join(filter(None, (device.bus_id or device.uuid, device.part)))
        return GpuReading(
            source=self.source,
            fault=fault,
            kind=kind,
            at=at,
            clock=ReadingClock.EPOCH,
            node=self.node,
            gpu_bus_id=device.bus_id,
            gpu_uuid=device.uuid,
            value=value,
            details=details(told),
            raw=clean(raw),
            origin=f"{self.session}/{fault}/{place}/{kind}/{at:.3f}"[:120],
        )
