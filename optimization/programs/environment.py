"""The job that makes the environment of a family, and tests in it what it is for, once."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common.jobs.run import Running, read_json, run
from optimization.programs.making import OFFLINE
from optimization.recipes import lock_of, recipes
from serving.environments import EnvironmentNotMade, LockedEnvironment, ensure_held

LOCKED_FOR_PYTHON = "3.11"
TEST_SECONDS = 1_800.0
TESTED = "tested-"


def prepare(running: Running) -> Mapping[str, Any]:
    """Return the environment's name, or `refused` with the reason."""
    told = read_json()
    family, recipe = told["family"], recipes().get(told.get("recipe", ""))
    tested = recipe.name if recipe else family
    running.report({"stage": "environment", "done": 0, "total": 1})
    try:
        place = ensure_held(environment_of(family), Path(told["root"]))
    except EnvironmentNotMade as error:
        return {"refused": f"The environment of {family} cannot be made: {error}"}
    mark = place / (f"{TESTED}{recipe.key}-{recipe.digest[:16]}" if recipe else TESTED)
    if mark.exists():
        return {"environment": place.name}
    running.report({"stage": "self-test", "done": 0, "total": 1})
    module = f"optimization.programs.{'self_test' if recipe else 'task_self_test'}"
    if words := failure_of(module, tested, place):
        return {"refused": f"The environment of {family} is broken. Self-test of {tested}: {words}"}
    mark.touch()
    return {"environment": place.name}


def environment_of(family: str) -> LockedEnvironment:
    return LockedEnvironment(name=family, lock=lock_of(family), python=LOCKED_FOR_PYTHON)


def failure_of(module: str, tested: str, place: Path) -> str:
    """Return the last words of a self-test in an environment; empty: it passed."""
    try:
        done = subprocess.run(
            [place / "bin" / "python", "-m", module, tested],
            capture_output=True,
            check=False,
            env=os.environ | OFFLINE,
            text=True,
            timeout=TEST_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"it did not end within {TEST_SECONDS:g} s"
    if done.returncode == 0:
        return ""
    lines = done.stderr.strip().splitlines()
    return lines[-1][:800] if lines else f"it ended with status {done.returncode}"


if __name__ == "__main__":
    sys.exit(run(prepare))
