"""Lending in the tide sample: two pools of simulated machines, and small jobs on an idle one of the other."""

import sys
import time
from pathlib import Path
from typing import Any

from controlplane.sample import tide
from slipway.client import Client, Document, at

PROGRAM = Path(tide.__file__).with_name("training.py")
STEPS, NIGHTLY_STEPS = 7_200, 300
"""Of a second each."""
WITHIN_SECONDS = 180.0
LOOK_SECONDS = 2.0


def _machines(*names: str, cards: int) -> list[dict[str, Any]]:
    return [{"machine": name, "cards": cards, "model": "H100-80GB", "rack": "a"} for name in names]


POOLS: tuple[dict[str, Any], ...] = (
    {
        "name": "training",
        "kind": "training",
        "inventory": _machines("train-1", "train-2", cards=8),
        "mode": "approve",
        "description": "Simulated machines of the tide sample; lends what is idle.",
    },
    {
        "name": "small-jobs",
        "kind": "small_jobs",
        "inventory": _machines("small-1", cards=4),
        "description": "Simulated cards of the tide sample; borrows.",
    },
)
AT_WORK: tuple[dict[str, Any], ...] = (
    {"name": "pretrain", "pool": "training", "cards": 8},
    {"name": "tune-1", "pool": "small-jobs", "cards": 4, "kind": "batch"},
    {"name": "tune-2", "pool": "small-jobs", "cards": 2, "kind": "batch"},
    {"name": "tune-3", "pool": "small-jobs", "cards": 4, "kind": "batch"},
)
OWNER: dict[str, Any] = {"name": "nightly", "pool": "training", "cards": 8, "priority": 1}
"""Wants the machine back that small jobs have borrowed."""


def lend(client: Client, *, team: str, cluster: str) -> Document | None:
    """Have small jobs borrow a machine, and its owner ask for it back; return the plan that waits, if any."""
    there = {row["name"] for row in client.each(at("capacity", "pools"))}
    for pool in POOLS:
        if pool["name"] not in there:
            client.create(at("capacity", "pools"), {**pool, "team": team, "cluster": cluster})
    made = _submit(client, team, AT_WORK, STEPS)
    if made:
        _wait(lambda: all(_workloads(client)[name]["state"] == "running" for name in made))
    if _submit(client, team, (OWNER,), NIGHTLY_STEPS):
        _wait(lambda: _plan(client) is not None)
    return _plan(client)


def _submit(client: Client, team: str, wanted: tuple[dict[str, Any], ...], steps: int) -> list[str]:
    """Submit those of them that are not there yet, and return their names."""
    there, command = _workloads(client), [sys.executable, str(PROGRAM), str(steps)]
    missing = [one for one in wanted if one["name"] not in there]
    for one in missing:
        body = {**one, "team": team, "command": command, "checkpoint_seconds": 30}
        client.create(at("capacity", "workloads"), body)
    return [str(one["name"]) for one in missing]


def _workloads(client: Client) -> dict[str, Document]:
    return {row["name"]: row for row in client.each(at("capacity", "workloads"))}


def _plan(client: Client) -> Document | None:
    return next(iter(client.each(at("capacity", "plans"), pool=POOLS[0]["name"], state="proposed")), None)


def _wait(holds: Any) -> None:
    """Give up without a word: the page shows why a workload does not run."""
    until = time.monotonic() + WITHIN_SECONDS
    while not holds() and time.monotonic() < until:
        time.sleep(LOOK_SECONDS)
