"""A benchmark on a whole stack whose every process is killed once while it measures."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from common.jobs.notes import PROGRESS, STARTED, JobNotes
from slipway.client import ServerRefused, ServerUnreachable, at
from tests.benchmarks.conftest import OF_THE_MACHINE
from tests.e2e.conftest import Scene
from tests.e2e.test_whole_stack import PARTS
from tests.marked import living
from tests.patience import eventually
from tests.prepared import prepare_home
from tests.serving.tiny_model import write_tiny_model
from tests.stack.conftest import RunningStack

pytestmark = [pytest.mark.stack, pytest.mark.slow, pytest.mark.timeout(3_600)]

ORDER = {
    "name": "killed", "team": "default", "cluster": "local",
    # In a closed loop: on a busy machine an open one is sent late, and says so.
    "scenario": {
        "arrivals": "concurrency", "rates": [2], "requests": None, "seconds": 20, "warm_up_requests": 2,
        "input": 96, "output": 16,
    },
}  # fmt: skip
SPACE = {
    "engines": ["transformers"],
    "parameters": {"slots": [2, 4], "threads": [1], "prefill_tokens": [128]},
}
RUN_WITHIN_SECONDS = 900


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """A stack with a version of a tiny model in its registry."""
    prepare_home(tmp_path / "home")
    stack = RunningStack(tmp_path / "home", "controlplane.embedded")
    try:
        stack.wait_until_ready(seconds=300)
        scene = Scene(stack)
        scene.admin.create(at("models"), {"name": "tiny", "task": "text-generation"})
        source = stack.home.path / "imports" / "tiny" / "v1"
        write_tiny_model(source, head_dim=32)
        scene.admin.create(at("models", "tiny", "versions"), {"source": str(source), "version": "v1"})
        eventually(lambda: scene.admin.get(at("models", "tiny", "versions", "v1"))["state"] == "ready")
        yield scene
    finally:
        stack.stop()


class KilledBenchmark:
    def __init__(self, scene: Scene) -> None:
        self.stack, self.admin = scene.stack, scene.admin
        spec = {
            "versions": ["tiny:v1"], "device": "cpu", "repeats": 2,
            "ready_within_seconds": RUN_WITHIN_SECONDS,
            "space": SPACE,
        }  # fmt: skip
        self.address = at("benchmarks", scene.admin.create(at("benchmarks"), {**ORDER, "spec": spec})["id"])
        self.seen = scene.admin.get(self.address)

    def look(self) -> bool:
        """Read its state, and say whether it goes on; one of the killed parts may be the API."""
        with suppress(ServerUnreachable, ServerRefused):
            self.seen = self.admin.get(self.address)
        return self.seen["state"] == "running"

    def workers(self) -> list[psutil.Process]:
        """Return the model workers of its runs."""
        words = [(one, one.cmdline()) for one in living(self.stack.mark)]
        return [one for one, said in words if any(word.startswith("--deployment=bench-") for word in said)]

    def jobs(self) -> list[JobNotes]:
        return [JobNotes(path) for path in (self.stack.home.path / "jobs").glob("benchmarks-benchmarkrun-*")]

    def measures(self, position: int) -> bool:
        """Whether this run sends the requests of its window."""
        assert self.look(), self.seen
        runs = {run["position"]: run["state"] for run in self.seen["result"]["runs"]}
        assert runs.get(position) in (None, "waiting", "deploying", "measuring"), self.seen["result"]["runs"]
        told = [job.read(PROGRESS) or {} for job in self.jobs()]
        return runs.get(position) == "measuring" and [one.get("stage") for one in told] == ["measure"]


def test_what_is_killed_costs_its_own_run_and_no_other(scene: Scene) -> None:
    benchmark = KilledBenchmark(scene)
    eventually(lambda: benchmark.measures(1), seconds=RUN_WITHIN_SECONDS, every=0.3)
    (worker,) = benchmark.workers()
    worker.kill()
    eventually(lambda: benchmark.measures(2), seconds=RUN_WITHIN_SECONDS, every=0.3)
    (generator,) = benchmark.jobs()
    os.kill((generator.read(STARTED) or {})["pid"], signal.SIGKILL)

    pending, position = list(PARTS), 3
    while pending:
        eventually(lambda: benchmark.measures(position), seconds=RUN_WITHIN_SECONDS, every=0.3)  # noqa: B023
        for name in pending[:2]:
            before = scene.stack.supervisor.processes()[name]
            os.kill(before.pid or 0, signal.SIGKILL)
            eventually(lambda: scene.stack.supervisor.processes()[name].pid not in (None, before.pid))  # noqa: B023
        del pending[:2]
        position += 1
    eventually(lambda: not benchmark.look(), seconds=4 * RUN_WITHIN_SECONDS, every=1.0)

    assert benchmark.seen["state"] == "finished", benchmark.seen["reason"]
    result = benchmark.seen["result"]
    runs = {run["position"]: run for run in result["runs"]}
    for number, run in runs.items():
        if number > 2:
            broken = {one["rule"] for one in run["violations"]}
            is_hurt = bool(broken) and broken <= set(OF_THE_MACHINE)
            # Its generator ends with the part that started it: the Celery worker, or the sweeper.
            is_orphaned = number == position - 1 and "has ended" in run["reason"]
            assert run["state"] == "valid" or is_hurt or is_orphaned, run
    assert [runs[position]["state"] for position in (1, 2)] == ["invalid", "invalid"]
    assert {one["rule"] for one in runs[1]["violations"]} >= {"restarts"}
    assert "load generator" in runs[2]["reason"]
    assert {one["cell"] for one in result["conclusion"]["cells"]} == {one["id"] for one in result["cells"]}
    assert not benchmark.workers()
    assert not benchmark.jobs(), "neither a generator nor what one has left"
