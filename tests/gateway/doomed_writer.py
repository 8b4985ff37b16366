"""A writer that is killed: `python -m tests.gateway.doomed_writer '{"layout": .., "call": .., "die_at": n}'`.

It dies by SIGKILL before (odd n) or after (even n) a rename, and exits 0 when it comes to its end.
"""

import json
import os
import signal
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from common.fence import Fence
from gateway.backends.envoy.backend import EnvoyFiles
from gateway.backends.envoy.layout import EnvoyFileLayout
from gateway.routes import RouteSpec, RouteTarget, WorkerEndpoint


def arm(die_at: int) -> None:
    rename = Path.replace
    passed = 0

    def pass_one() -> None:
        nonlocal passed
        passed += 1
        if passed == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def replace(self: Path, target: Path) -> Path:
        pass_one()
        result = rename(self, target)
        pass_one()
        return result

    Path.replace = replace  # type: ignore[method-assign, assignment]


def call(gateway: EnvoyFiles, name: str, data: dict[str, Any]) -> None:
    if name == "set_route":
        stable, candidate = (
            RouteTarget(*data[side]) if data[side] else None for side in ("stable", "candidate")
        )
        assert stable
        gateway.set_route(RouteSpec("chat", stable, candidate, data["percent"]), fence=Fence(*data["fence"]))
    elif name == "reweigh":
        spec = gateway.desired_route("chat")
        assert spec is not None
        gateway.set_route(replace(spec, candidate_percent=data["percent"]), fence=Fence(*data["fence"]))
    elif name == "remove_route":
        gateway.remove_route("chat", fence=Fence(*data["fence"]))
    elif name == "set_target":
        endpoints = [WorkerEndpoint(address, port) for address, port in data["endpoints"]]
        gateway.set_target(data["target"], endpoints, observed_at=datetime.fromisoformat(data["observed_at"]))
    else:
        raise ValueError(name)


def main(order: dict[str, Any]) -> None:
    paths = {key: Path(order["layout"][key]) for key in ("run_dir", "log_dir")}
    layout = EnvoyFileLayout(**{**order["layout"], **paths})
    arm(order["die_at"])
    call(EnvoyFiles(layout), order["call"], order["data"])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
