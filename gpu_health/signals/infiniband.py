"""What `/sys/class/infiniband` says: states of ports, and counters that rise. Reads files, nothing else."""

from collections.abc import Iterator
from pathlib import Path

from gpu_health.signals.levels import MACHINE, Levels, ReadingDevice
from gpu_health.signals.reading import GpuReading, ReadingKind, ReadingSource

ROOT = Path("/sys/class/infiniband")
FATAL = ("link_downed", "local_link_integrity_errors", "excessive_buffer_overrun_errors")
HOUR = 3_600.0


class InfinibandReader:
    """`read` once a minute. A port that is down says so at each look: how often is what rules count."""

    def __init__(self, *, session: str, node: str = "", root: Path = ROOT) -> None:
        self._root = root
        self._levels = Levels(ReadingSource.INFINIBAND, session, node)
        self._up: set[ReadingDevice] = set()

    def read(self, at: float) -> list[GpuReading]:
        """Nothing on a machine without such ports. A tree that cannot be read is a failing detector."""
        if not self._root.exists():
            return []
        try:
            found = [one for port in sorted(self._root.glob("*/ports/*")) for one in self._port(port, at)]
        except (OSError, ValueError) as error:
            return self._levels.level(
                "detector.infiniband", MACHINE, True, at, raw=str(error), kind=ReadingKind.DETECTOR
            )
        found += self._levels.level("detector.infiniband", MACHINE, False, at)
        return found + self._levels.all_told(MACHINE, at)

    def _port(self, path: Path, at: float) -> Iterator[GpuReading]:
        levels = self._levels
        port = ReadingDevice(part=f"{path.parent.parent.name}/{path.name}")
        more = {"port": port.part}
        state = (path / "state").read_text().strip()
        if state.endswith("ACTIVE"):
            flapped = levels.changed("was down", port, 0.0, at) is not None
            if flapped:
                yield levels.reading("ib.flap", port, at, raw=state, more=more)
            if flapped or port not in self._up:
                # Before this start of the agent it may have been down, too.
                yield levels.reading("ib.port_down", port, at, raw=state, kind=ReadingKind.CLEARED, more=more)
            self._up.add(port)
        elif port in self._up:
            # A port that was never active is not plugged in.
            levels.changed("was down", port, 1.0, at)
            yield levels.reading("ib.port_down", port, at, raw=state, more=more)
        for name in FATAL:
            if rise := self._rise(path, name, port, at):
                yield levels.reading(
                    "ib.fatal_counter", port, at, value=rise[0], more={**more, "counter": name}
                )
        if rise := self._rise(path, "symbol_error", port, at):
            yield levels.reading(
                "ib.symbol_errors", port, at, value=rise[0] / rise[1], more={**more, "per": "second"}
            )
        hourly = self._counter(path, "symbol_error")
        if hourly is not None and (rose := levels.rise_over("symbol_error per hour", port, hourly, at, HOUR)):
            yield levels.reading("ib.symbol_errors", port, at, value=rose, more={**more, "per": "hour"})
        if rise := self._rise(path, "link_error_recovery", port, at):
            yield levels.reading("ib.link_recovery", port, at, value=60 * rise[0] / rise[1], more=more)

    def _rise(self, path: Path, name: str, port: ReadingDevice, at: float) -> tuple[float, float] | None:
        value = self._counter(path, name)
        return None if value is None else self._levels.rise(name, port, value, at)

    def _counter(self, path: Path, name: str) -> float | None:
        counter = path / "counters" / name
        return float(counter.read_text()) if counter.exists() else None
