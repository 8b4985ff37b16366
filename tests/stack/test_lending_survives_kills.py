"""Cards move between workloads of a real stack while one of its parts after the other is killed."""

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controlplane.sample.tide.lending import lend
from slipway.client import Client, Document, ServerRefused, ServerUnreachable, at
from tests.prepared import prepare_home
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

    def goes_on(self, name: str) -> bool:
        """Whether the run that is live began behind a checkpoint, by its log."""
        told = self.client.get(at("capacity", "workloads", self.workloads()[name]["id"], "log"), lines=2000)
        found = re.match(r"begins at step (\d+)", told["log"])
        return told["is_live"] and found is not None and int(found[1]) > 0

    def state_of(self, plan: int) -> str:
        return str(self.client.get(at("capacity", "plans", plan))["state"])

    def states(self, *names: str) -> set[str]:
        found = self.workloads()
        return {found[name]["state"] for name in names}

    def proposed(self) -> int:
        """Return the number of the plan that waits; 0: none."""
        rows = self.client.each(at("capacity", "plans"), state="proposed")
        return next((int(row["id"]) for row in rows), 0)

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
            except (ServerRefused, ServerUnreachable):
                pass
            assert time.monotonic() < end
            time.sleep(0.5)


@pytest.fixture
def lending(tmp_path: Path) -> Iterator[Lending]:
    prepare_home(tmp_path / "home")
    stack = RunningStack(tmp_path / "home", "controlplane.embedded")
    try:
        stack.wait_until_ready(seconds=300)
        yield Lending(stack)
    finally:
        stack.stop()


def test_cards_go_to_their_owner_and_back_though_parts_are_killed(lending: Lending) -> None:
    plan = lend(lending.client, team="default", cluster="local")
    assert plan is not None, lending.workloads()
    for first, second in (("web", "worker"), ("sweeper", "node-agent")):
        number = lending.proposed()
        lending.decide(number, "apply")
        lending.kill(first)
        lending.until(lambda number=number: lending.state_of(number) == "done")
        now = lending.workloads()
        assert (now["nightly"]["state"], len(now["nightly"]["cards_held"])) == ("running", 8)
        assert {now[name]["state"] for name in ("tune-2", "tune-3")} == {"queued"}

        lending.decide(number, "undo")
        lending.kill(second)
        lending.until(lambda number=number: lending.state_of(number) == "undone")
        lending.until(lambda: lending.states("tune-2", "tune-3") == {"running"})
        held = [card for row in lending.workloads().values() for card in row["cards_held"]]
        assert len({(card["machine"], card["card"]) for card in held}) == len(held)
        for name in ("tune-2", "tune-3"):
            lending.until(lambda name=name: lending.goes_on(name))
        nightly = lending.workloads()["nightly"]["id"]
        lending.client.create(at("capacity", "workloads", nightly, "resume"), {"reason": "Once more."})
        lending.until(lending.proposed)
