"""The plan that grows: one replica of each task, then more of whatever holds the rate back."""

from collections.abc import Iterator, Mapping
from math import inf

from graphs.planning.assignment import Assignment, PlaceKey, ReplicaPlace, TaskChoice, choices_of, places_for
from graphs.planning.model import PlanObjective, PlanRequest

MOST_STEPS = 500
Counts = dict[str, dict[PlaceKey, int]]


def grow(request: PlanRequest) -> Assignment | None:
    """Return a valid assignment, or None where growing finds none."""
    for by_memory in (False, True):
        start = _start(request, by_memory=by_memory)
        if start is None:
            continue
        grown = _grown(start)
        if grown.is_valid():
            return grown
    return None


def _start(request: PlanRequest, *, by_memory: bool) -> Assignment | None:
    """Place one replica of each task, the largest first, each in its fastest or its smallest form."""
    tied = request.latency_limit < inf or request.objective is PlanObjective.LATENCY

    def rank(choice: TaskChoice) -> tuple[float, ...]:
        size = (choice.batch.card_memory, choice.batch.memory)
        speed = (choice.service if tied else choice.work, choice.batch.size)
        return (*size, *speed) if by_memory else (*speed, *size)

    forms = {task.name: sorted(choices_of(request, task), key=rank) for task in request.tasks}
    chosen: dict[str, TaskChoice] = {}
    counts: Counts = {}
    largest_first = sorted(
        forms, key=lambda t: (-forms[t][0].batch.card_memory, -forms[t][0].batch.memory, t)
    )
    for task in largest_first:
        for choice in forms[task]:
            current = Assignment(request, {**chosen, task: choice}, {**counts, task: {}})
            if (found := _roomiest(current, choice)) is not None:
                chosen[task] = choice
                counts[task] = {found.key: 1}
                break
        else:
            return None
    return Assignment(request, chosen, counts)


def _roomiest(current: Assignment, choice: TaskChoice) -> ReplicaPlace | None:
    """The place with memory for one more replica that is busy for the least time."""
    best: tuple[tuple[float, ...], ReplicaPlace] | None = None
    for at, place in enumerate(places_for(current.request, choice.option)):
        held = current.demands.get((place.machine.name, ""), (0.0, 0.0, 0.0))
        if held[0] + choice.batch.memory > place.machine.memory:
            continue
        rank: tuple[float, ...]
        busy = held[1] / place.machine.cores if place.machine.cores else inf
        if place.card is not None:
            own = current.demands.get(place.key, (0.0, 0.0, 0.0))
            if own[0] + choice.batch.card_memory > place.card.memory:
                continue
            rank = (own[1], own[0], busy, float(at))
        else:
            rank = (busy, held[0], float(at))
        if best is None or rank < best[0]:
            best = (rank, place)
    return best[1] if best else None


def _grown(current: Assignment) -> Assignment:
    request = current.request
    goal = inf if request.objective is PlanObjective.THROUGHPUT else request.rate
    for _ in range(MOST_STEPS):
        if current.most >= goal:
            break
        better = max(_steps(current), key=lambda pair: pair[0], default=None)
        if better is None:
            break
        current = better[1]
    return current


def _steps(current: Assignment) -> Iterator[tuple[tuple[float, ...], Assignment]]:
    """Every change of a task that holds the rate back and makes nothing worse, with its rank."""
    limit = current.most * (1 + 1e-9)
    slow = [task for task in current.choices if current.capacity(task) <= limit]
    full = {place for place, _, allowed in current.limits() if allowed <= limit}
    crowded = [task for task, places in current.counts.items() if not full.isdisjoint(_keys(places))]
    for task in dict.fromkeys((*slow, *crowded)):
        for changed in _changes(current, task):
            gain = changed.capacity(task) > current.capacity(task) * (1 + 1e-9) and task in slow
            if not (changed.most > limit or (gain and not full and changed.most >= current.most)):
                continue
            if changed.fits() and changed.latency <= current.request.latency_limit:
                yield (changed.most, -changed.cost, changed.capacity(task)), changed


def _keys(places: Mapping[PlaceKey, int]) -> set[PlaceKey]:
    return {key for machine, card in places for key in ((machine, ""), (machine, card))}


def _changes(current: Assignment, task: str) -> Iterator[Assignment]:
    """One more replica, another batch size, or another option with as many replicas as find room."""
    request, mine = current.request, current.choices[task]
    if (place := _roomiest(current, mine)) is not None:
        counts = dict(current.counts[task])
        counts[place.key] = counts.get(place.key, 0) + 1
        yield Assignment(request, current.choices, {**current.counts, task: counts})
    for choice in choices_of(request, mine.task):
        if choice == mine:
            continue
        choices = {**current.choices, task: choice}
        if choice.option == mine.option:
            yield Assignment(request, choices, current.counts)
            continue
        counts = {}
        for _ in range(current.replicas(task)):
            partial = Assignment(request, choices, {**current.counts, task: counts})
            if (place := _roomiest(partial, choice)) is None:
                break
            counts = {**counts, place.key: counts.get(place.key, 0) + 1}
        if counts:
            yield Assignment(request, choices, {**current.counts, task: counts})
