"""Whole nodes freed and what that costs: ours, the optimum of a MILP, and a walk over a queue's victims."""

import random
import time

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import lil_matrix

from capacity.planning.fragments import CardNode, PlacedJob, free_nodes, startable

CARDS = 8


def cluster(seed: int, nodes: int, used: float) -> list[CardNode]:
    """Jobs of 1 to 4 cards at random places, until `used` of all cards are taken; a fifth is immovable."""
    chance = random.Random(seed)
    free = [CARDS] * nodes
    jobs: list[list[PlacedJob]] = [[] for _ in range(nodes)]
    taken = number = 0
    while taken < used * nodes * CARDS:
        cards = chance.choices((1, 2, 4), (0.5, 0.3, 0.2))[0]
        fits = [index for index in range(nodes) if free[index] >= cards]
        if not fits:
            break
        index = chance.choice(fits)
        cost = cards * chance.uniform(60, 3_600)
        jobs[index].append(PlacedJob(f"job-{number}", cards, cost, chance.random() >= 0.2))
        free[index] -= cards
        taken += cards
        number += 1
    return [CardNode(f"node-{index:03}", CARDS, tuple(held)) for index, held in enumerate(jobs)]


def optimum(nodes: list[CardNode], wanted: int, seconds: float = 60.0) -> float | None:
    """The least cost of freeing so many occupied nodes, by a MILP; None where there is no way or no time."""
    open_nodes = [n for n in nodes if n.jobs and all(job.movable for job in n.jobs)]
    # One variable says that a node is freed; one says how many jobs of a size of a freed node go to a target.
    targets = [n for n in nodes if n.jobs]
    sizes = sorted({job.cards for node in open_nodes for job in node.jobs})
    count = len(open_nodes) + len(targets) * len(sizes)
    cost = np.zeros(count)
    for index, node in enumerate(open_nodes):
        cost[index] = sum(job.restart_cost for job in node.jobs)
    rows, low, high = lil_matrix((1 + len(sizes) + len(targets), count)), [], []
    rows[0, : len(open_nodes)] = 1
    low.append(wanted)
    high.append(wanted)
    for s, size in enumerate(sizes):
        for index, node in enumerate(open_nodes):
            rows[1 + s, index] = -sum(job.cards == size for job in node.jobs)
        for t in range(len(targets)):
            rows[1 + s, len(open_nodes) + t * len(sizes) + s] = 1
        low.append(0)
        high.append(0)
    place = {node.name: index for index, node in enumerate(open_nodes)}
    for t, node in enumerate(targets):
        row = 1 + len(sizes) + t
        for s, size in enumerate(sizes):
            rows[row, len(open_nodes) + t * len(sizes) + s] = size
        if node.name in place:
            rows[row, place[node.name]] = node.free
        low.append(-np.inf)
        high.append(node.free)
    upper = np.full(count, np.inf)
    upper[: len(open_nodes)] = 1
    answer = milp(
        cost,
        constraints=LinearConstraint(rows.tocsr(), low, high),
        bounds=Bounds(0, upper),
        integrality=np.ones(count),
        options={"time_limit": seconds},
    )
    return float(answer.fun) if answer.status == 0 else None


def walk(nodes: list[CardNode], wanted: int, most: int = 16) -> int:
    """A walk modelled on KAI's consolidation: victims in the queue's order, at most 16, first that fits."""
    freed = 0
    state = {node.name: list(node.jobs) for node in nodes}
    for _ in range(wanted):
        queue = sorted((job.name, name) for name, jobs in state.items() for job in jobs if job.movable)[:most]
        victims = {job for job, _ in queue}
        for name, jobs in sorted(state.items()):
            if not jobs or any(job.name not in victims for job in jobs):
                continue
            room = {n: CARDS - sum(j.cards for j in held) for n, held in state.items() if n != name and held}
            placed = []
            for job in sorted(jobs, key=lambda job: -job.cards):
                target = next((n for n, free in room.items() if free >= job.cards), None)
                if target is None:
                    break
                room[target] -= job.cards
                placed.append((job, target))
            if len(placed) == len(jobs):
                for job, target in placed:
                    state[target].append(job)
                state[name] = []
                freed += 1
                break
        else:
            break
    return freed


def report(seeds: int) -> None:
    print("100 nodes of 8 cards, 8 whole nodes more wanted")
    for used in (0.75, 0.85):
        ratios, freed, walked, could, moved, spent = [], [], [], [], [], []
        for seed in range(seeds):
            nodes = cluster(seed, 100, used)
            began = time.process_time()
            plan = free_nodes(nodes, 8)
            spent.append(time.process_time() - began)
            best = optimum(nodes, len(plan.freed)) if plan.freed else 0.0
            if best:
                ratios.append(plan.cost / best)
            freed.append(len(plan.freed))
            moved.append(len(plan.moves))
            walked.append(walk(nodes, 8))
            could.append(startable(nodes, CARDS))
        print(f"  {used:.0%} used: {np.mean(could):.1f} such jobs could start")
        print(f"    ours frees {np.mean(freed):.1f} for {np.mean(moved):.1f} jobs moved")
        print(f"    the walk frees {np.mean(walked):.1f}")
        print(f"    cost beside the MILP's: mean {np.mean(ratios):.3f}, worst {max(ratios):.3f}")
        print(f"    {1_000 * np.mean(spent):.0f} ms of own CPU")
