"""A plan as sizes that Ray takes: actors of a node, processors and cards of an actor, items of a block."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from serving.graphs.description import GraphDescription
from serving.graphs.errors import GraphError
from serving.graphs.plan import GraphPlan, TaskPlan, gpu_of

RAY_VERSION = "2.60.0"
PLAN_VARIABLE = "SLIPWAY_GRAPH_PLAN"
"""The plan's JSON, where there is no file of it."""

BLOCKS_PER_ACTOR = 4
"""Blocks of a run for each actor of the largest pool, at least: with fewer, some would have no work."""


@dataclass(frozen=True)
class ActorSize:
    """Resources of one actor. `gpus`: its share of a card, by how many the plan puts on one."""

    cpus: int
    gpus: float


def actor_sizes(plan: GraphPlan) -> Mapping[str, ActorSize]:
    """Return the sizes by task. Which card of the cluster one of the plan's is, Ray chooses."""
    placed = {
        name: [gpu_of(one, number) for number in range(one.replicas)] for name, one in plan.tasks.items()
    }
    on_card = Counter(card for cards in placed.values() for card in cards if card is not None)
    return {
        name: ActorSize(one.threads, _share(one, placed[name], on_card)) for name, one in plan.tasks.items()
    }


def _share(plan: TaskPlan, cards: list[int | None], on_card: Mapping[int, int]) -> float:
    if plan.device != "cuda":
        return 0.0
    most = max((on_card[card] for card in cards if card is not None), default=1)
    return 1.0 if most == 1 else math.floor(10_000 / most) / 10_000


def pool_sizes(graph: GraphDescription, plan: GraphPlan) -> Mapping[str, int]:
    """Actors by node. The processes of a task that several nodes call are shared out among these, one each at
    least: Ray Data has a pool for each step."""
    calls = graph.visits()
    before: Counter[str] = Counter()
    sizes = {}
    for node in graph.nodes:
        replicas, count = plan.tasks[node.task].replicas, calls[node.task]
        sizes[node.name] = max(1, replicas // count + (before[node.task] < replicas % count))
        before[node.task] += 1
    return sizes


def block_items(graph: GraphDescription, plan: GraphPlan, items: int) -> int:
    """Items of a block: the largest batch, if that leaves work for all."""
    widest = max(pool_sizes(graph, plan).values())
    return max(1, min(max(one.max_size for one in plan.tasks.values()), items // (widest * BLOCKS_PER_ACTOR)))


def check_capacity(needed: Mapping[str, float], there: Mapping[str, float]) -> None:
    """Raises GraphError for a plan that the Ray cluster can never run: it would wait for ever."""
    short = [
        f"{asked:g} {name} and the cluster has {there.get(name, 0.0):g}"
        for name, asked in needed.items()
        if asked > there.get(name, 0.0) + 1e-6
    ]
    if short:
        raise GraphError(f"the plan needs {'; '.join(short)}: give a smaller plan or a larger Ray cluster")


def needed(graph: GraphDescription, plan: GraphPlan, actors: Mapping[str, int]) -> Mapping[str, float]:
    """Processors and cards of so many actors a node or a task."""
    sizes, task_of = actor_sizes(plan), {node.name: node.task for node in graph.nodes}
    of = {name: sizes[task_of.get(name, name)] for name in actors}
    return {
        "CPU": sum(count * of[name].cpus for name, count in actors.items()),
        "GPU": round(sum(count * of[name].gpus for name, count in actors.items()), 3),
    }
