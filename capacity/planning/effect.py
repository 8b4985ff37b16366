"""Scale-ups that did not help: more workers answer no more requests, so that yet more would not, either."""

from dataclasses import dataclass, replace

LEAST_EFFECT = 0.1
"""Share of the rise in proportion to the workers below which a scale-up did not help."""
JUDGED_AFTER_SECONDS = 60.0
"""For which workers of it have answered when a scale-up is judged."""
LEAST_LOOKS = 3
"""Looks before a scale-up without which nobody knows what was answered then."""
BLOCKED_SECONDS = 1_800.0
"""After which another scale-up is tried."""


@dataclass(frozen=True)
class ScaleUp:
    """A scale-up of a service that was full.

    since: the last look at which none of its workers was ready. before: workers. rate: requests that these
    answered a second.
    """

    since: float
    before: int
    rate: float


@dataclass(frozen=True)
class EffectMemory:
    """Kept between two looks. have: workers then. rates: (seconds, answered a second) of the last minute.
    raised: a scale-up that is not judged yet. useless_since: when one was found not to have helped."""

    have: int = 0
    rates: tuple[tuple[float, float], ...] = ()
    raised: ScaleUp | None = None
    useless_since: float | None = None

    @property
    def rate(self) -> float:
        return sum(rate for _at, rate in self.rates) / len(self.rates) if self.rates else 0.0

    def forbids_more(self, at: float) -> bool:
        return self.useless_since is not None and 0 <= at - self.useless_since < BLOCKED_SECONDS


def learn_effect(
    memory: EffectMemory, at: float, *, have: int, ready: int, is_full: bool, rate: float
) -> EffectMemory:
    """Remember a look. is_full: all that the workers can do is asked of them, or requests wait."""
    raised, useless = memory.raised, memory.useless_since
    if have < memory.have or not is_full:
        raised = useless = None
    elif raised is None and have > memory.have > 0 and len(memory.rates) >= LEAST_LOOKS and memory.rate > 0:
        raised = ScaleUp(at, memory.have, memory.rate)
    elif raised is not None and ready <= raised.before:
        raised = replace(raised, since=at)
    kept = tuple((then, past) for then, past in memory.rates if at - JUDGED_AFTER_SECONDS < then < at)
    memory = EffectMemory(have, (*kept, (at, rate)), raised, useless)
    if raised is not None and at - raised.since >= JUDGED_AFTER_SECONDS:
        wanted = raised.rate * (1 + LEAST_EFFECT * (ready / raised.before - 1))
        memory = replace(memory, raised=None, useless_since=at if memory.rate < wanted else None)
    return memory
