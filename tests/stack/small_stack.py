"""The launcher and supervisord with parts that start at once: `python -m tests.stack.small_stack`."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clusters.backends.supervisor_rpc import Program
from controlplane.embedded.home import Home
from controlplane.embedded.launcher import Launcher
from controlplane.env import PROJECT, env

PARTS = Path(__file__).with_name("small_parts.py")


class SmallLauncher(Launcher):
    def _readiness(self) -> Mapping[str, Any]:
        return {"healthy": True}


def programs(home: Home) -> list[Program]:
    def part(name: str, priority: int) -> Program:
        return Program(
            name=name,
            command=(sys.executable, str(PARTS), name),
            directory=PROJECT,
            log=home.logs / f"{name}.log",
            priority=priority,
            stop_within_seconds=1,
        )

    return [part("first", 100), part("family", 200), part("stubborn", 200)]


if __name__ == "__main__":
    raise SystemExit(SmallLauncher(env, programs=programs(Home(env.home)), prepare=("-c", "")).run())
