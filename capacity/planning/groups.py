"""How many workers of one service are online: as its law says, beyond that as many as there are jobs."""

from dataclasses import dataclass, field, replace

from capacity.planning.errors import PlanningError
from capacity.planning.law import ObservedLoad, ScalingLaw, ScalingMemory, recommend

GUARD_HOLD_SECONDS = 60.0
"""For which all stay online after the latency guard has spoken."""
IDLE_HOLD_SECONDS = 30.0
"""For which workers stay offline after the last job: another may follow."""
FEWEST_ANSWERS = 5
"""Fewer say nothing of a P95."""


@dataclass(frozen=True)
class GroupState:
    """Workers and work of one service at one moment.

    ready: workers that answer. online: those of them that get requests. jobs: that wait or run. jobs_each:
    that one worker works on at a time. latency_ms: P95 to the first byte of the last answers, of which there
    were `answers`; None: there were none. expected_ms: until a request that comes now is begun. refused:
    requests that were turned away since the look before.
    """

    ready: int
    online: int
    jobs: int
    jobs_each: int = 1
    latency_ms: float | None = None
    answers: int = 0
    expected_ms: float = 0.0
    refused: int = 0

    def is_slower_than(self, bound_ms: float | None) -> bool:
        """Whether answers are late, or will be: who waits half of the bound already is not begun in time."""
        if bound_ms is None:
            return False
        seen = self.latency_ms if self.latency_ms is not None and self.answers >= FEWEST_ANSWERS else 0.0
        return seen > bound_ms or self.expected_ms > bound_ms / 2


@dataclass(frozen=True)
class GroupRules:
    """least_online: workers. latency_bound_ms: None where there is no bound."""

    least_online: int = 1
    latency_bound_ms: float | None = None

    def __post_init__(self) -> None:
        if self.least_online < 1:
            raise PlanningError("least_online", "One worker at least must be online: requests need it.")


@dataclass(frozen=True)
class SplitMemory:
    """machines: what the law said last. guarded_until: the latency guard holds until then. busy_until: there
    are jobs, or were, until then."""

    law: ScalingMemory = field(default_factory=ScalingMemory)
    machines: int = 0
    guarded_until: float = 0.0
    busy_until: float = 0.0


@dataclass(frozen=True)
class GroupDecision:
    """online: workers. why: a code. need: of the law. rejected: (workers, code) of outranked options."""

    online: int
    why: str
    need: float
    rejected: tuple[tuple[int, str], ...]
    memory: SplitMemory = field(repr=False)
    is_guarded: bool = False


def split(
    law: ScalingLaw, rules: GroupRules, memory: SplitMemory, observed: ObservedLoad, state: GroupState
) -> GroupDecision:
    """Say how many workers serve requests; the others take jobs.

    The latency guard comes first, then the law, then the jobs: a worker without a job to take stays online.
    """
    told = recommend(law, memory.law, observed, memory.machines)
    at = observed.at
    if state.jobs:
        memory = replace(memory, busy_until=at + IDLE_HOLD_SECONDS)
    memory = replace(memory, law=told.memory, machines=told.machines)
    if state.refused or state.is_slower_than(rules.latency_bound_ms):
        memory = replace(memory, guarded_until=at + GUARD_HOLD_SECONDS)
    by_law = min(state.ready, max(told.machines, rules.least_online))
    offline = min(state.ready - by_law, -(-state.jobs // max(1, state.jobs_each)))
    if at < memory.busy_until:
        offline = min(state.ready - by_law, max(offline, state.ready - state.online))
    by_jobs = state.ready - offline
    by_load = "jobs_wait" if told.why == "within_band" and by_jobs < state.online else told.why
    options = [(by_jobs, "no_jobs" if by_jobs > by_law else by_load)]
    if by_jobs != by_law:
        options.append((by_law, told.why))
    if at < memory.guarded_until:
        options.insert(0, (state.ready, "latency_bound"))
    online, why = options[0]
    rejected = tuple(option for option in options[1:] if option[0] != online)
    return GroupDecision(online, why, told.need, rejected, memory, is_guarded=why == "latency_bound")
