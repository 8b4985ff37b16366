"""What readings add up to, per fault and device: counts in windows, and whose conditions hold. Pure."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpu_health.policy.rule import Conditions, FaultRule, version_key
from gpu_health.signals.reading import (
    LEVEL,
    SOURCE_STATE,
    GpuReading,
    ReadingClock,
    ReadingKind,
    ReadingSource,
)
from gpu_health.signals.xid import OF_APPLICATIONS, RECOVERY_ACTION

BURST_SECONDS = 10.0
"""What one process writes about one fault of a GPU within this time is one crash."""
POLLED_WITHIN_SECONDS = 120.0
"""So late may another source tell of what the kernel has said already."""
OUT_OF_ORDER_SECONDS = 60.0
"""By so much lines of one start of a machine may be out of order."""
MAX_GROUPS = 20_000
MAX_TRACKERS = 50_000
DRIVER_VERSION = "driver.version"


class TooMuchEvidence(ValueError):
    """More faults of more devices than any machine has: the readings are not those of a machine."""


@dataclass(frozen=True, slots=True)
class ClockTime:
    """A time that may be compared with others of its clock alone."""

    clock: ReadingClock
    at: float

    def seconds_to(self, other: "ClockTime") -> float | None:
        """Return the seconds between two times; None: unknown. Lines without a time count as simultaneous.
        After a restart the boot clock says nothing about earlier times.
        """
        if self.clock is not other.clock:
            return None
        if self.clock is ReadingClock.NONE:
            return 0.0
        if self.clock is ReadingClock.BOOT and other.at < self.at:
            return None
        return abs(other.at - self.at)

    def is_within(self, seconds: float, other: "ClockTime") -> bool:
        apart = self.seconds_to(other)
        return apart is not None and apart <= seconds


@dataclass(frozen=True, slots=True)
class Burst:
    """The lines of one crash, which count once. `process`: of an application, empty where unknown."""

    moment: ClockTime
    source: ReadingSource
    pid: str
    process: str

    @classmethod
    def of(cls, reading: GpuReading, moment: ClockTime) -> "Burst":
        process = reading.detail("process") if reading.fault in OF_APPLICATIONS else ""
        return cls(moment, reading.source, reading.detail("pid"), "" if process == "<unknown>" else process)

    def holds(self, other: "Burst") -> bool:
        """Whether the other, which came later, says nothing new about the GPU."""
        if self.process and self.process == other.process:
            return True
        if self.source is not other.source:
            return self.moment.is_within(POLLED_WITHIN_SECONDS, other.moment)
        if self.source is not ReadingSource.KERNEL_LOG or self.pid != other.pid:
            # A source that is asked again and again says each time how it is.
            return False
        if self.moment.clock is ReadingClock.NONE and not self.pid:
            return False
        return self.moment.is_within(BURST_SECONDS, other.moment)


@dataclass(slots=True)
class _Tracker:
    """The conditions of one rule, for one set of its `same` details."""

    recent: deque[Burst]
    best: int = 0
    is_accompanied: bool = False


@dataclass(slots=True)
class Occurrences:
    """All readings of one fault on one device."""

    fault: str
    device: str
    first: GpuReading
    last: GpuReading
    count: int = 0
    last_rank: int = 0
    """Of the last reading among all that were taken."""
    cleared: bool = False
    present: dict[str, GpuReading] = field(default_factory=dict)
    """What was said last of each part of the device, such as a link or port, and not taken back."""
    undescribed: int = 0
    """Readings whose details no rule for the fault speaks of."""
    trackers: dict[tuple[str, tuple[str, ...]], _Tracker] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    """Rules whose conditions hold, by name, and how often they were fulfilled."""

    @property
    def node(self) -> str:
        return self.last.node


class FaultEvidence:
    def __init__(self, rules: Sequence[FaultRule], *, driver: str, uuids: Mapping[str, str]) -> None:
        self.driver = driver
        self._rules: dict[str, list[FaultRule]] = {}
        for rule in rules:
            self._rules.setdefault(rule.fault, []).append(rule)
        self._uuids = dict(uuids)
        self._buses = {uuid: bus for bus, uuid in uuids.items()}
        self._groups: dict[tuple[str, str, str], Occurrences] = {}
        self._trackers = 0
        self._rank = 0
        self._failing: set[ReadingSource] = set()
        self._recovery: dict[str, tuple[int, int]] = {}
        self._xids: dict[tuple[str, str], dict[str, ClockTime]] = {}
        self._boots: list[str] = []
        """Starts of the machine, in the order in which readings name them."""
        self._uptime = 0.0

    def take(self, reading: GpuReading) -> None:
        """Raises TooMuchEvidence."""
        self._rank += 1
        self._learn(reading)
        self._notice_restart(reading)
        if reading.fault.startswith("detector."):
            failing = reading.kind is not ReadingKind.CLEARED
            (self._failing.add if failing else self._failing.discard)(reading.source)
        if reading.kind is ReadingKind.FACT:
            if reading.fault == SOURCE_STATE:
                device = self._device_of(reading)
                self._end(lambda group, last: group.device == device and _is_of_former_session(last, reading))
            return
        device = self._device_of(reading)
        group = self._group(reading, device)
        if group is None:
            return
        group.last, group.last_rank = reading, self._rank
        part = reading.detail("part")
        if reading.kind is ReadingKind.CLEARED:
            # Another link or port of the device may still be so.
            group.present = {name: said for name, said in group.present.items() if part and name != part}
            if not group.present:
                self._clear(group)
            return
        group.present[part] = reading
        if group.cleared or reading.fault == RECOVERY_ACTION:
            self._forget(group)
        group.cleared = False
        group.count += 1
        if reading.fault == RECOVERY_ACTION and reading.value is not None and device:
            self.note_recovery_action(device, int(reading.value))
        moment = ClockTime(reading.clock, reading.at)
        if reading.fault.startswith("xid."):
            self._accompany(reading, device, moment)
        rules = self._rules.get(reading.fault, ())
        for rule in rules:
            if rule.enabled:
                self._count(rule, group, reading, moment)
        group.undescribed += bool(rules) and not any(_speaks_of(rule.conditions, reading) for rule in rules)

    def note_recovery_action(self, device: str, action: int) -> None:
        """Keep the recovery action that a driver asks for, from a poll or a kernel line."""
        self._recovery[self._buses.get(device, device)] = (action, self._rank)

    def end(self, boot: str) -> None:
        """All readings were taken: what a driver asked for in a former start of the machine is over.

        `boot`: the present start, which readings may not name yet.
        """
        present = boot if boot and boot not in self._boots else self._boots[-1] if self._boots else ""
        self._end(
            lambda group, last: group.fault == RECOVERY_ACTION and bool(last.boot) and last.boot != present
        )

    def _end(self, is_over: Callable[[Occurrences, GpuReading], bool]) -> None:
        for group in self._groups.values():
            over = [part for part, reading in group.present.items() if is_over(group, reading)]
            for part in over:
                del group.present[part]
            if over and not group.present and not group.cleared:
                group.last = replace(group.last, kind=ReadingKind.CLEARED)
                self._clear(group)

    def _clear(self, group: Occurrences) -> None:
        group.cleared = True
        self._forget(group)
        if group.fault == RECOVERY_ACTION:
            self._recovery.pop(group.device, None)
        if group.fault.startswith("detector."):
            self._failing.discard(group.last.source)

    def _notice_restart(self, reading: GpuReading) -> None:
        """Notice a restart of the machine or driver: the driver has then forgotten what it asked for."""
        if reading.boot and (not self._boots or self._boots[-1] != reading.boot):
            self._boots.append(reading.boot)
        restarted = reading.fault == DRIVER_VERSION and reading.source is ReadingSource.KERNEL_LOG
        if reading.clock is ReadingClock.BOOT:
            restarted |= reading.at < self._uptime - OUT_OF_ORDER_SECONDS
            self._uptime = reading.at if restarted else max(reading.at, self._uptime)
        if restarted:
            self._end(lambda group, _: group.fault == RECOVERY_ACTION and group.node == reading.node)

    def occurrences(self) -> Iterator[Occurrences]:
        yield from self._groups.values()

    def rules_held(self, found: Occurrences) -> list[tuple[FaultRule, int]]:
        rules = self._rules.get(found.fault, ())
        return [(rule, found.held[rule.name]) for rule in rules if rule.name in found.held]

    def rules_of_action(self, action: int) -> list[FaultRule]:
        rules = self._rules.get(RECOVERY_ACTION, ())
        return [rule for rule in rules if rule.conditions.details.get("action") == str(action)]

    def recovery_action(self, device: str) -> tuple[int, int] | None:
        """The last that the driver of a GPU asked for, and the rank of the reading that said so."""
        return self._recovery.get(device)

    def is_failing(self, source: ReadingSource) -> bool:
        return source in self._failing

    def uuid_of(self, found: Occurrences) -> str:
        return found.last.gpu_uuid or self._uuids.get(found.device, "")

    def missing(self, rule: FaultRule, found: Occurrences) -> str:
        """Say in words what a rule still asks for."""
        conditions = rule.conditions
        trackers = [one for (name, _), one in found.trackers.items() if name == rule.name]
        if any(one.is_accompanied for one in trackers):
            return "it came with another Xid, or was caused by one"
        if conditions.count > 1:
            best = max((one.best for one in trackers), default=0)
            apart = " by different processes" if found.fault in OF_APPLICATIONS and found.count > best else ""
            return f"{best} of {conditions.count}{apart} within {conditions.window_seconds:g} s"
        value = found.last.value
        if conditions.value_at_least is not None or conditions.value_below is not None:
            return f"its value is {'unknown' if value is None else f'{value:g}'}"
        if conditions.driver_at_least or conditions.driver_below:
            return f"the driver is {self.driver or 'unknown'}"
        wanted = ", ".join(f"{key}={value}" for key, value in conditions.details.items())
        return f"it asks for {wanted}" if wanted else "nothing was counted"

    def _learn(self, reading: GpuReading) -> None:
        if reading.gpu_bus_id and reading.gpu_uuid and len(self._uuids) < MAX_GROUPS:
            self._uuids[reading.gpu_bus_id] = reading.gpu_uuid
            self._buses[reading.gpu_uuid] = reading.gpu_bus_id
        if reading.fault == DRIVER_VERSION and version_key(reading.detail("version")):
            self.driver = reading.detail("version")

    def _device_of(self, reading: GpuReading) -> str:
        return reading.gpu_bus_id or self._buses.get(reading.gpu_uuid, reading.gpu_uuid)

    def _group(self, reading: GpuReading, device: str) -> Occurrences | None:
        key = (reading.node, reading.fault, device)
        group = self._groups.get(key)
        if group is None:
            if reading.kind is ReadingKind.CLEARED:
                return None
            if len(self._groups) >= MAX_GROUPS:
                raise TooMuchEvidence(
                    f"More than {MAX_GROUPS} faults of devices: this is no log of a machine."
                )
            group = self._groups[key] = Occurrences(reading.fault, device, reading, reading)
        return group

    def _forget(self, group: Occurrences) -> None:
        self._trackers -= len(group.trackers)
        group.trackers.clear()
        group.held.clear()

    def _accompany(self, reading: GpuReading, device: str, moment: ClockTime) -> None:
        """Other Xids of the GPU were not alone, if this one came soon after them."""
        others = self._xids.setdefault((reading.node, device), {})
        others[reading.fault] = moment
        for fault, at in others.items():
            group = self._groups.get((reading.node, fault, device))
            if fault == reading.fault or group is None:
                continue
            for rule in self._rules.get(fault, ()):
                if rule.conditions.alone_seconds and at.is_within(rule.conditions.alone_seconds, moment):
                    for (name, _), tracker in group.trackers.items():
                        if name == rule.name:
                            tracker.is_accompanied = True
                    group.held.pop(rule.name, None)

    def _count(self, rule: FaultRule, group: Occurrences, reading: GpuReading, moment: ClockTime) -> None:
        conditions = rule.conditions
        if not self._applies(conditions, reading):
            return
        same = tuple(reading.detail(name) for name in conditions.same)
        if conditions.same and not any(same):
            return
        tracker = group.trackers.get((rule.name, same))
        if tracker is None:
            if self._trackers >= MAX_TRACKERS:
                raise TooMuchEvidence(
                    f"More than {MAX_TRACKERS} counts at once: this is no log of a machine."
                )
            tracker = group.trackers[(rule.name, same)] = _Tracker(deque(maxlen=conditions.count))
            self._trackers += 1
        if conditions.alone_seconds:
            others = self._xids.get((reading.node, group.device), {})
            tracker.is_accompanied = bool(reading.detail("caused_by")) or any(
                fault != reading.fault and at.is_within(conditions.alone_seconds, moment)
                for fault, at in others.items()
            )
            if tracker.is_accompanied:
                group.held.pop(rule.name, None)
                return
        inside = 1
        if conditions.count > 1:
            burst = Burst.of(reading, moment)
            known = next((one for one in tracker.recent if one.holds(burst)), None)
            if known is None:
                tracker.recent.append(burst)
            elif known.process:
                # It ran into the fault again: as of now.
                tracker.recent[tracker.recent.index(known)] = burst
            window = conditions.window_seconds
            inside = sum(one.moment.is_within(window, moment) for one in tracker.recent)
        tracker.best = max(tracker.best, inside)
        if inside >= conditions.count:
            group.held[rule.name] = group.held.get(rule.name, 0) + 1

    def _applies(self, conditions: Conditions, reading: GpuReading) -> bool:
        if not _speaks_of(conditions, reading):
            return False
        low, high, value = conditions.value_at_least, conditions.value_below, reading.value
        if low is not None and (value is None or value < low):
            return False
        if high is not None and (value is None or value >= high):
            return False
        if not conditions.driver_at_least and not conditions.driver_below:
            return True
        driver = version_key(self.driver)
        if not driver:
            return False
        if conditions.driver_at_least and driver < version_key(conditions.driver_at_least):
            return False
        return not conditions.driver_below or driver < version_key(conditions.driver_below)


def _speaks_of(conditions: Conditions, reading: GpuReading) -> bool:
    return all(reading.detail(key) == value for key, value in conditions.details.items())


def _is_of_former_session(last: GpuReading, state: GpuReading) -> bool:
    """Whether its source has told its state of the device since, and this is no part of it."""
    return (
        (last.node, last.source) == (state.node, state.source)
        and bool(last.detail(LEVEL))
        and last.session != state.session
        and last.detail("drill") == state.detail("drill")
    )
