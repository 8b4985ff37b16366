"""A plan as a document: how many processes run each task of a graph, in which batches, on what.

Standard library only; planners write it, the executor takes it.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from serving.fields import Fields, ProtocolError
from serving.graphs.description import LARGEST_BATCH, LONGEST_WAIT_MS, GraphDescription, TaskDescription

PLAN_FORMAT = 1
MOST_PROCESSES = 4_096
"""Processes of one task."""
LEAST_BYTES = 1 << 16
"""Bytes that must fit inside at a time."""
DEVICES_OF_PLANS = ("cpu", "cuda")


@dataclass(frozen=True, kw_only=True)
class TaskPlan:
    """The processes of one task. `threads`: of each process's libraries. `cores`: processor cores by number
    that its processes are pinned to, shared out among them in turn; empty: no pinning. `gpus`: cards by
    number, shared out in turn, of a task on `cuda`."""

    replicas: int = 1
    max_size: int = 1
    wait_ms: float = 0.0
    threads: int = 1
    cores: tuple[int, ...] = ()
    device: str = "cpu"
    gpus: tuple[int, ...] = ()


def gpu_of(plan: TaskPlan, number: int) -> int | None:
    """The card of a task's process."""
    return plan.gpus[number % len(plan.gpus)] if plan.device == "cuda" and plan.gpus else None


@dataclass(frozen=True, kw_only=True)
class EntryLimits:
    """Limits of what is inside at a time. What waits beyond them waits as encoded bytes outside: `waiting`
    items at most, then others are refused; 0: no limit."""

    items: int = 16
    bytes: int = 1 << 30
    waiting: int = 0


@dataclass(frozen=True, kw_only=True)
class GraphPlan:
    """`digest`: of the graph that it is for; empty: of any with these tasks."""

    tasks: Mapping[str, TaskPlan]
    entry: EntryLimits = field(default_factory=EntryLimits)
    graph: str = ""
    digest: str = ""

    @property
    def processes(self) -> int:
        return sum(one.replicas for one in self.tasks.values())

    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return {"format": PLAN_FORMAT, **document}

    @classmethod
    def parse(cls, data: object, graph: GraphDescription) -> Self:
        """Read a plan for `graph`. Raises ProtocolError."""
        fields = Fields(data, "the plan")
        if fields.whole("format") != PLAN_FORMAT:
            raise ProtocolError(f"format must be {PLAN_FORMAT}")
        digest = fields.text("digest", default="")
        if digest and digest != graph.digest:
            raise ProtocolError(f"digest: the plan is for another graph than {graph.name}, {graph.digest}")
        tasks = Fields(fields.take("tasks", dict, "an object"), "tasks").data
        names = {one.name for one in graph.tasks}
        if tasks.keys() != names:
            wrong = ", ".join(sorted(tasks.keys() ^ names))
            raise ProtocolError(f"tasks must name exactly those of {graph.name}; these differ: {wrong}")
        entry = Fields(fields.take("entry", dict, "an object"), "entry")
        return cls(
            tasks={name: _task_plan(name, one, graph.task(name)) for name, one in tasks.items()},
            entry=EntryLimits(
                items=entry.whole("items", low=1, high=100_000),
                bytes=entry.whole("bytes", low=LEAST_BYTES),
                waiting=entry.whole("waiting") if "waiting" in entry.data else 0,
            ),
            graph=graph.name,
            digest=graph.digest,
        )

    @classmethod
    def of_one_each(cls, graph: GraphDescription, *, replicas: int = 1, items: int = 16) -> Self:
        """The plan without a profile: the same number of processes for each task, its own batches."""
        return cls(
            tasks={
                one.name: TaskPlan(
                    replicas=replicas,
                    max_size=one.max_size,
                    wait_ms=one.max_wait_ms,
                    threads=one.cores,
                    device="cuda" if one.device == "cuda" else "cpu",
                )
                for one in graph.tasks
            },
            entry=EntryLimits(items=items),
            graph=graph.name,
            digest=graph.digest,
        )


def _task_plan(name: str, data: object, task: TaskDescription) -> TaskPlan:
    one = Fields(data, f"the plan of {name}")
    device = one.text("device")
    if device not in DEVICES_OF_PLANS or task.device not in ("any", device):
        raise ProtocolError(
            f"device of {name} must be {task.device if task.device != 'any' else 'cpu or cuda'}"
        )
    size = one.whole("max_size", low=1, high=LARGEST_BATCH)
    if size > task.max_size:
        raise ProtocolError(f"max_size of {name} must be at most its batch's, {task.max_size}")
    return TaskPlan(
        replicas=one.whole("replicas", low=1, high=MOST_PROCESSES),
        max_size=size,
        wait_ms=one.number("wait_ms", high=LONGEST_WAIT_MS),
        threads=one.whole("threads", low=1, high=4_096),
        cores=_numbers(one, "cores"),
        device=device,
        gpus=_numbers(one, "gpus"),
    )


def _numbers(one: Fields, key: str) -> tuple[int, ...]:
    numbers = one.data.get(key) or []
    is_right = isinstance(numbers, list | tuple) and all(
        type(number) is int and number >= 0 for number in numbers
    )
    if not is_right:
        raise ProtocolError(f"{key} must be a list of whole numbers")
    return tuple(numbers)
