"""Cards move between workloads of a real stack while one of its parts after the other is killed."""

import os
import re
import signal
import time
from collections.abc import Callable

import pytest

from controlplane.sample.tide.lending import lend
from slipway.client import Client, Document, ServerRefused, at
from tests.stack.conftest import RunningStack

pytestmark = [pytest.mark.stack, pytest.mark.slow, pytest.mark.timeout(600)]
WITHIN_SECONDS = 120


class Lending:
    """The pools of the tide sample, without its service."""

    def __init__(self, stack: RunningStack) -> None:
        self.stack = stack
        token = (stack.home.path / "admin-token").read_text().strip()
        self.client = Client(f"http://127.0.0.1:{stack.port}", token)

    def kill(self, part: str) -> None:
        pid = self.stack.supervisor.processes()[part].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    def workloads(self) -> dict[str, Document]:
        return {row["name"]: row for row in self.client.each(at("capacity", "workloads"))}

    def begins(self, name: str) -> int:
        """Return the step at which the present run began; 0: at the first, or it has not said so yet."""
        found = re.search(r"begins at step (\d+)", self.workloads()[name]["log_tail"])
        return int(found[1]) if found else 0

    def state_of(self, plan: int) -> str:
        return str(self.client.get(at("capacity", "plans", plan))["state"])

    def decide(self, plan: int, deed: str) -> int:
        row = self.client.create(at("capacity", "plans", plan, deed), {"reason": "It is time."})
        return int(row["id"])

    def until(self, holds: Callable[[], object]) -> None:
        """The console may be the part that is away."""
        end = time.monotonic() + WITHIN_SECONDS
        while True:
            try:
                if holds():
                    return
            except (ServerRefused, OSError):
                pass
            assert time.monotonic() < end, self.workloads()
            time.sleep(0.5)


@pytest.mark.parametrize(("first", "second"), [("web", "worker"), ("sweeper", "node-agent")])
def test_cards_go_to_their_owner_and_back_though_parts_are_killed(
    stack: RunningStack, first: str, second: str
) -> None:
    lending = Lending(stack)
    nightly = lending.workloads().get("nightly")
    if nightly is not None:
        lending.client.create(at("capacity", "workloads", nightly["id"], "resume"), {"reason": "Once more."})
        lending.until(lambda: _proposed(lending))
    plan = lend(lending.client, team="default", cluster="local")
    assert plan is not None, lending.workloads()

    lending.decide(plan["id"], "apply")
    lending.kill(first)
    lending.until(lambda: lending.state_of(plan["id"]) == "done")
    now = lending.workloads()
    assert (now["nightly"]["state"], len(now["nightly"]["cards_held"])) == ("running", 8)
    assert {now[name]["state"] for name in ("tune-2", "tune-3")} == {"queued"}

    lending.until(lambda: lending.decide(plan["id"], "undo"))
    lending.kill(second)
    lending.until(lambda: lending.state_of(plan["id"]) == "undone")
    lending.until(lambda: {lending.workloads()[one]["state"] for one in ("tune-2", "tune-3")} == {"running"})
    held = [card for row in lending.workloads().values() for card in row["cards_held"]]
    assert len({(card["machine"], card["card"]) for card in held}) == len(held)
    lending.until(
        lambda: "begins" in (log := lending.workloads()["tune-3"]["log_tail"]) and "step 0" not in log
    )


def _proposed(lending: Lending) -> bool:
    return any(True for _ in lending.client.each(at("capacity", "plans"), state="proposed"))
