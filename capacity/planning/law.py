"""How many machines a service needs: up at once, down slowly, with headroom by the switch time."""

from dataclasses import dataclass, field, replace
from math import ceil, exp, isfinite, sqrt

from capacity.planning.errors import PlanningError

CLIPPED = 0.98
"""The busy rate from which it says nothing of the load any more: the machines take all that they can."""

NOISE_MARGIN = 2.0
"""Standard deviations of the load's noise that headroom covers (`python -m perf.capacity laws --trace`)."""
LONGEST_NOISE = 1.0
"""More than the load itself says that there is next to none."""
NOISE_MEMORY_SECONDS = 300.0

BY_SWITCH_SECONDS = ((10.0, 0.87, 600.0, 0.08), (60.0, 0.75, 600.0, 0.12), (180.0, 0.70, 900.0, 0.12))
"""Switch time (s), target utilisation, hold (s), band of a decrease (`python -m perf.capacity laws`)."""


@dataclass(frozen=True)
class ScalingLaw:
    """The parameters of one scaling policy.

    target: utilisation to aim at, above 0 and at most 1. drain_seconds: within which a backlog shall be
    worked off. increase_from: need over machines from which machines are added. hold_seconds: a decrease
    goes down to the highest need of this time. decrease_band: share by which the need must lie below.
    """

    target: float
    hold_seconds: float = 600.0
    decrease_band: float = 0.12
    drain_seconds: float = 30.0
    increase_from: float = 1.05

    def __post_init__(self) -> None:
        if not 0 < self.target <= 1:
            raise PlanningError(
                "target", f"{self.target} is not above 0 and at most 1: give a utilisation such as 0.75."
            )
        if not 0 <= self.decrease_band < 1:
            raise PlanningError(
                "decrease_band", f"{self.decrease_band} is not between 0 and 1: give a share such as 0.12."
            )
        for name in ("hold_seconds", "drain_seconds"):
            if not (isfinite(value := getattr(self, name)) and value > 0):
                raise PlanningError(name, f"{value} is not a positive number of seconds.")
        if not (isfinite(self.increase_from) and self.increase_from >= 1):
            raise PlanningError(
                "increase_from", f"{self.increase_from} is below 1: machines would be added without a need."
            )


def law_for(switch_seconds: float) -> ScalingLaw:
    """The law for a switch time in seconds: the slower machines come, the more headroom stands ready.

    Between the measured points target and hold are interpolated; outside them the nearest point holds.
    """
    if not (isfinite(switch_seconds) and switch_seconds >= 0):
        raise PlanningError("switch_seconds", f"{switch_seconds} is not a duration in seconds.")
    before = BY_SWITCH_SECONDS[0]
    if switch_seconds <= before[0]:
        return ScalingLaw(*before[1:])
    for after in BY_SWITCH_SECONDS[1:]:
        if switch_seconds <= after[0]:
            share = (switch_seconds - before[0]) / (after[0] - before[0])
            target, hold, band = (
                low + share * (high - low) for low, high in zip(before[1:], after[1:], strict=True)
            )
            return ScalingLaw(target, hold, band)
        before = after
    return ScalingLaw(*before[1:])


@dataclass(frozen=True)
class ObservedLoad:
    """Load of one service at one time.

    at: seconds on a clock that does not step. offered_10s, offered_60s: mean work that arrived in the last
    10 and 60 seconds, in machines. backlog: work that waits, in machine-seconds.
    """

    at: float
    offered_10s: float
    offered_60s: float
    backlog: float = 0.0

    def __post_init__(self) -> None:
        for name in ("at", "offered_10s", "offered_60s", "backlog"):
            if not (isfinite(value := getattr(self, name)) and value >= 0):
                raise PlanningError(
                    name, f"{value} is not a load: hold what there is until a real figure arrives."
                )

    @property
    def load(self) -> float:
        return max(self.offered_10s, self.offered_60s)


def offered_work(
    busy: float, machines: int, slots: int, answered: int, growth: int, unfinished: int
) -> float:
    """The work that arrives, in machines.

    busy: mean busy rate; while it is not clipped it says all. slots: of one machine. answered: requests since
    the last look. growth: by how many the unfinished ones grew in that time. unfinished: that wait or run.
    """
    if busy < CLIPPED:
        return busy * machines
    if answered:
        return machines * (1 + max(0, growth) / answered)
    return max(machines, unfinished / slots)


@dataclass(frozen=True)
class ScalingMemory:
    """A law's memory between two looks: falling maxima of the need within the hold, and the last review.

    variance: of the load from one look to the next, as a share of it squared, over the last minutes. last:
    (seconds, load) of the look before.
    """

    needs: tuple[tuple[float, float], ...] = ()
    reviewed: float | None = None
    variance: float = 0.0
    last: tuple[float, float] | None = None

    @property
    def noise(self) -> float:
        """Return the standard deviation of the load about its mean, as a share of it."""
        return min(LONGEST_NOISE, sqrt(self.variance / 2))

    def after(self, at: float, load: float) -> "ScalingMemory":
        """Remember how much the load has changed since the look before."""
        if self.last is None or not self.last[0] < at:
            return replace(self, last=(at, load))
        then, before = self.last
        mean = (before + load) / 2
        change = ((load - before) / mean) ** 2 if mean else 0.0
        share = 1 - exp(-(at - then) / NOISE_MEMORY_SECONDS)
        return replace(self, variance=self.variance + share * (change - self.variance), last=(at, load))


@dataclass(frozen=True)
class Recommendation:
    """The number of machines a service should have, the figures that led to it, and why, as a code."""

    machines: int
    need: float
    highest: float
    base: float
    why: str
    memory: ScalingMemory = field(repr=False)


def recommend(law: ScalingLaw, memory: ScalingMemory, observed: ObservedLoad, have: int) -> Recommendation:
    """Say how many machines the service should have; have: those that serve and those that start.

    A clock that stepped back forgets the memory: nothing goes down until it is full again.
    """
    if memory.needs and observed.at < memory.needs[-1][0]:
        memory = ScalingMemory()
    memory = memory.after(observed.at, observed.offered_10s)
    target = min(law.target, 1 / (1 + NOISE_MARGIN * memory.noise))
    need = observed.load / target + observed.backlog / law.drain_seconds
    oldest = observed.at - law.hold_seconds
    kept = [(at, past) for at, past in memory.needs if at > oldest and past > need]
    needs = (*kept, (observed.at, need))
    reviewed = observed.at + law.hold_seconds / 2 if memory.reviewed is None else memory.reviewed
    highest = needs[0][1]
    machines, why = have, "within_band"
    if need > law.increase_from * have:
        machines, why = ceil(need), "need_rose"
    elif observed.at - reviewed >= law.hold_seconds / 2:
        reviewed = observed.at
        if highest < have * (1 - law.decrease_band):
            machines, why = ceil(highest), "need_stayed_below"
    memory = replace(memory, needs=needs, reviewed=reviewed)
    return Recommendation(machines, need, highest, observed.load, why, memory)
