"""The launcher and both planes with parts that start at once: `python -m tests.stack.small_stack`."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clusters.backends.supervisor_rpc import SupervisedProgram
from controlplane.embedded.home import Home
from controlplane.embedded.launcher import Launcher
from controlplane.embedded.programs import Programs
from controlplane.env import env
from controlplane.environment import PROJECT, Environment

PARTS = Path(__file__).with_name("small_parts.py")


class SmallLauncher(Launcher):
    def _readiness(self) -> Mapping[str, Any]:
        return {"healthy": True}


def small(_: Environment, home: Home) -> Programs:
    def part(name: str, priority: int) -> SupervisedProgram:
        return SupervisedProgram(
            name=name,
            command=(sys.executable, str(PARTS), name),
            directory=PROJECT,
            log=home.logs / f"{name}.log",
            priority=priority,
            stop_within_seconds=1,
        )

    return Programs(
        control=[part("first", 100), part("family", 200), part("stubborn", 200)],
        data=[part("outlives", 200), part("deaf", 300)],
    )


if __name__ == "__main__":
    replace = "--replace" in sys.argv[1:]
    raise SystemExit(SmallLauncher(env, what=small, prepare=("-c", ""), replace=replace).run())
