"""The gateway and the workers need nobody who started them: launchers and supervisords come and go."""

import os
import signal
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from clusters.backends.base import DeploymentSpec, ModelVersion
from clusters.backends.embedded.desired import DesiredDeployment, DesiredStore
from common.fence import Fence
from controlplane.embedded import running
from controlplane.environment import PROJECT
from gateway.backends.envoy.backend import EnvoyFiles
from gateway.backends.envoy.layout import EnvoyFileLayout
from gateway.routes import RouteSpec, RouteTarget, WorkerEndpoint
from tests.patience import eventually
from tests.stack.conftest import RunningStack

pytestmark = pytest.mark.stack

DEPLOYMENT = "chat-v1"
WORKERS = (f"{DEPLOYMENT}-0", f"{DEPLOYMENT}-1")


class Requests(threading.Thread):
    """Requests through the gateway, one after the other, each on a connection of its own."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.url = url
        self.told: Counter[str] = Counter()
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.02):
            try:
                with urllib.request.urlopen(self.url, timeout=30) as answer:
                    self.told[str(answer.status)] += 1
            except OSError as error:
                self.told[repr(error)] += 1

    def go_on(self) -> None:
        """Until some more have been answered."""
        before = self.told["200"]
        eventually(lambda: self.told["200"] > before + 20)


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[RunningStack]:
    """Two workers behind the gateway, of which no row of a database knows; all logs on a full disk."""
    logs = tmp_path / "home" / "logs"
    (logs / "workers").mkdir(parents=True)
    planes = ("supervisord-data", "supervisord-control")
    programs = ("gateway", "gateway-access", "node-agent", *planes, "first", "family")
    for name in (*programs, *(f"workers/{worker}" for worker in WORKERS)):
        (logs / f"{name}.log").symlink_to("/dev/full")
    spec = DeploymentSpec(
        name=DEPLOYMENT,
        service="chat",
        version=ModelVersion(id=1, label="tiny:v1"),
        engine="echo",
        replicas=len(WORKERS),
    )
    wishes = DesiredStore(tmp_path / "home" / "run" / "deployments")
    with wishes.lock():
        wishes.save(DesiredDeployment(spec, Fence(1, 1), model_dir=PROJECT))
    stack = RunningStack(tmp_path / "home", "tests.stack.serving_stack")
    try:
        stack.wait_until_ready()
        home = stack.home
        layout = EnvoyFileLayout(home.envoy, home.logs, "127.0.0.1", stack.gateway_port, stack.admin_port)
        gateway = EnvoyFiles(layout)
        eventually(lambda: gateway.health().ok)
        wish = wishes.load(DEPLOYMENT)
        assert wish is not None
        workers = [WorkerEndpoint("127.0.0.1", seat.port) for seat in wish.slots.values()]
        gateway.set_target(DEPLOYMENT, workers, observed_at=datetime.now(UTC))
        route = RouteSpec("chat", RouteTarget(DEPLOYMENT, "tiny:v1"), None, 0)
        gateway.set_route(route, fence=Fence(0, 1))
        eventually(lambda: len(gateway.ready(DEPLOYMENT)) == len(WORKERS))
        yield stack
    finally:
        stack.stop()


def test_no_request_fails_while_everything_but_the_data_plane_dies_and_is_replaced(
    stack: RunningStack,
) -> None:
    assert set(stack.pids()) == {"gateway", "node-agent", *WORKERS}
    serves = ("gateway", *WORKERS)
    before = stack.pids(*serves)
    requests = Requests(f"http://127.0.0.1:{stack.gateway_port}/chat/v1/models")
    requests.start()
    requests.go_on()

    for plane in (stack.home.control, stack.home.data):
        (former,) = running.supervisords(plane.conf)
        former.kill()
        eventually(lambda plane=plane, former=former: set(running.supervisords(plane.conf)) - {former})
    requests.go_on()
    assert (stack.home.logs / "gateway-access.log").resolve() == Path("/dev/full")
    stack.process.kill()
    os.kill(stack.supervisord_pid("data"), signal.SIGKILL)
    stack.process.wait()
    requests.go_on()
    assert stack.pids(*serves) == before

    stack.process = stack.launch()
    stack.wait_until_ready()
    requests.go_on()
    assert f"Taking over what answers model traffic; processes: {len(before)}." in stack.said
    first, stack.process = stack.process, stack.launch("--replace")
    assert first.wait(60) == 0
    stack.wait_until_ready()
    requests.go_on()

    assert stack.pids(*serves) == before
    assert all(stack.supervisor.processes()[name].pid == pid for name, pid in before.items())
    requests.over.set()
    requests.join()
    assert set(requests.told) == {"200"}
    stack.process.send_signal(signal.SIGTERM)
    assert stack.process.wait(60) == 0
    assert stack.left_over() == []
