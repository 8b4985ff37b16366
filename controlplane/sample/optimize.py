"""Plays optimised versions: INT8 and pruned children of the small model with their verdicts, a bad child that
the gate refuses, and a canary of one that passed."""

import json
import time
from pathlib import Path
from typing import Any

from controlplane.sample import play
from controlplane.sample.corpus import passages
from controlplane.sample.failure import SampleFailed
from controlplane.sample.play import SampleRun
from controlplane.sample.train import split
from slipway.client import Document, at

PARENT = "v2"
SETS = "docstring-sets"
TEST_ITEMS, CALIBRATION_ITEMS = 400, 200
WITHIN_SECONDS = 3_600
LOAD: dict[str, Any] = {
    "arrivals": "concurrency", "rates": [2], "requests": 30, "warm_up_requests": 4, "input": 24, "output": 16
}  # fmt: skip
RUNS: dict[str, dict[str, Any]] = {
    "int8": {"recipe": "local/int8-dynamic", "margin": 2.0},
    "pruned": {
        "recipe": "local/prune-mlp",
        "margin": 5.0,
        "parameters": {"share": 0.17, "recovery_steps": 200},
        "calibration": f"{SETS}:v1/calibration.jsonl",
    },
    "two-bits": {"recipe": "local/int2-dynamic", "margin": 5.0},
}
"""By the names that they have in the sample."""


def play_optimize(sample: SampleRun) -> None:
    """Make three children, show what became of each, and begin a canary of the one that passed."""
    place = sample.place()
    play.train(sample, bad=False)
    play.ensure_model(sample)
    play.ensure_version(sample, PARENT)
    _ensure_sets(sample)
    ended = {name: _ended(sample, name, order) for name, order in RUNS.items()}
    for row in ended.values():
        sample.say(f"{row['name']} is {row['state']}: {row['child']} {row['reason']}".rstrip())
    sample.say(f"Family and Pareto: {sample.client.url}/optimizations/{ended['int8']['id']}/")
    if ended["two-bits"]["state"] != "rejected":
        raise SampleFailed("The gate has not refused the version of two bits.")
    passed = next((row for row in ended.values() if row["state"] == "passed"), None)
    if passed is None:
        raise SampleFailed("No version has passed; the page of each says why.")
    play.ensure_service(sample, place, version=PARENT)
    with play.traffic(sample, place):
        play.release_until_approval(sample, place, passed["child"].partition(":")[2], "It passed its checks.")
        sample.say("Traffic goes on until you stop it.")
        while True:
            time.sleep(60)


def _ended(sample: SampleRun, name: str, order: dict[str, Any]) -> Document:
    name = f"sample-{name}"
    rows = sample.client.each(at("optimizations"), q=name)
    row = next((one for one in rows if one["state"] not in ("failed", "cancelled")), None)
    if row is None:
        body = {
            "name": name,
            "team": _team(sample),
            "parent": f"{sample.story.model}:{PARENT}",
            "test": f"{SETS}:v1/test.jsonl",
            "cluster": "local",
            "scenario": LOAD,
            **order,
        }
        row = sample.client.create(at("optimizations"), body)
    address = at("optimizations", row["id"])
    sample.say(f"{name}: {sample.client.url}/optimizations/{row['id']}/")
    return play.follow(sample, address, lambda seen: seen["ended_at"], within_seconds=WITHIN_SECONDS)


def _ensure_sets(sample: SampleRun) -> None:
    """Import the test and calibration sets as a version of a model of their own."""
    directory = sample.directory.parent / "sample-sets"
    write_sets(directory)
    if play.found(sample.client, at("models", SETS)) is None:
        body = {
            "name": SETS,
            "task": "evaluation",
            "description": "Texts for the gate. The sample.",
            "team": _team(sample),
        }
        sample.client.create(at("models"), body)
    address = at("models", SETS, "versions", "v1")
    if play.found(sample.client, address) is None:
        sample.client.create(at("models", SETS, "versions"), {"source": str(directory), "version": "v1"})
    play.follow(sample, address, lambda seen: seen["state"] == "ready", within_seconds=60)


def _team(sample: SampleRun) -> str:
    return str(sample.client.get(at("models", sample.story.model))["team"])


def write_sets(directory: Path) -> None:
    """Write paragraphs that the training held back for the test, others for calibration."""
    held_back, learned = split(passages())
    directory.mkdir(parents=True, exist_ok=True)
    parts = {"test": held_back[:TEST_ITEMS], "calibration": learned[:CALIBRATION_ITEMS]}
    for name, some in parts.items():
        lines = "".join(json.dumps({"text": passage.text}) + "\n" for passage in some)
        (directory / f"{name}.jsonl").write_text(lines)
