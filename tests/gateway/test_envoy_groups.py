"""Groups of real workers behind a real Envoy: offline ones answer what the online ones refuse."""

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from common.fence import Fence
from gateway.backends.envoy.store import EnvoyFileStore
from gateway.routes import RouteSpec, WorkerEndpoint
from perf.envoy_stack import STABLE, EnvoyStack, free_port
from perf.load import LoadClient
from serving.jobs.groups import GroupAssignment
from serving.jobs.redis_store import RedisJobStore
from serving.runtime.jobs import GROUP_LOOK_SECONDS
from serving.worker_command import JOBS_URL
from tests.patience import eventually
from tests.serving.workers import RunningWorker, running
from tests.valkey import ValkeyServer

pytestmark = [pytest.mark.process, pytest.mark.timeout(60)]
APP = """
import time
from slipway import serve

app = serve.App(processes=1)

@app.post("/ask")
def ask(request):
    time.sleep(request.seconds)
    return {}

@app.job("/work", attempts=1)
def work(request, progress):
    for step in range(request.steps):
        progress(step / request.steps)
        time.sleep(0.05)
    return {}
"""
QUEUE = 2


class GroupsBehindEnvoy:
    """Two workers of one slot each, of which the second is offline once `part` has returned."""

    def __init__(self, home: Path, valkey: ValkeyServer, stack: ExitStack) -> None:
        (home / "app").mkdir()
        (home / "app/app.py").write_text(APP)
        self._url = valkey.url
        options: dict[str, Any] = {
            "engine": "app", "model_dir": home / "app", "deployment": STABLE.name, "service": "chat",
            "version_label": STABLE.version, "queue_limit": QUEUE,
        }  # fmt: skip
        told = {JOBS_URL: valkey.url}
        made = [
            running(home / f"{name}.log", told, name=name, port=free_port(), **options)
            for name in ("w-0", "w-1")
        ]
        self.online, self.offline = (stack.enter_context(one) for one in made)
        for one in (self.online, self.offline):
            one.until_ready()
        self.envoy = EnvoyStack(home)
        self.envoy.log.parent.mkdir(exist_ok=True)
        stack.callback(self.envoy.stop)
        self.envoy.start()
        self.route(is_parted=False)
        spec = RouteSpec("chat", STABLE, None, 0, all_paths=True)
        self.envoy.gateway.set_route(spec, fence=Fence(1, 1))
        eventually(lambda: len(self.envoy.gateway.ready(STABLE.name)) == 2)

    def route(self, *, is_parted: bool) -> None:
        places = [
            WorkerEndpoint("127.0.0.1", self.online.port),
            WorkerEndpoint("127.0.0.1", self.offline.port, is_spare=is_parted),
        ]
        self.envoy.gateway.set_target(STABLE.name, places, observed_at=datetime.now(UTC))

    def part(self) -> None:
        """The order of the reconciler: gateway, then queue."""
        self.route(is_parted=True)

        async def assigned() -> bool:
            store = RedisJobStore.at(self._url)
            try:
                given = GroupAssignment(offline=frozenset({"w-1"}), fence=1)
                return await store.assign(("chat", STABLE.name), given)
            finally:
                await store.close()

        assert asyncio.run(assigned())
        time.sleep(2 * GROUP_LOOK_SECONDS)
        job = self.submit(steps=60)
        eventually(lambda: self.job(job)["state"] == "running")
        assert self.offline.metric("slipway_worker_in_flight") == 0

    def submit(self, *, steps: int) -> str:
        answer = self.online.post("/work", steps=steps)
        assert answer.status_code == 202, answer.text
        return answer.headers["location"]

    def job(self, address: str) -> dict[str, Any]:
        return dict(self.online.client.get(f"{self.online.url}{address}").json())

    def ask(self, count: int, seconds: float) -> Counter[int]:
        """Ask at once, and count the answers by their status."""

        async def one() -> int:
            client = LoadClient(self.envoy.layout.port)
            try:
                return (await client.post("/chat/ask", json.dumps({"seconds": seconds}).encode())).status
            finally:
                client.close()

        async def all_of_them() -> list[int]:
            return await asyncio.gather(*(one() for _ in range(count)))

        return Counter(asyncio.run(all_of_them()))

    def answered(self, worker: RunningWorker, code: int = 200) -> float:
        return worker.metric("slipway_worker_requests_total", code=str(code), route="/ask")


def change_groups_under_load(groups: GroupsBehindEnvoy) -> None:
    """Three clients at a time: each is answered while the second worker comes and goes."""
    is_over = threading.Event()
    seen: Counter[int] = Counter()

    def ask() -> None:
        while not is_over.is_set():
            seen.update(groups.ask(3, 0.01))

    asking = threading.Thread(target=ask)
    asking.start()
    for turn in range(21):
        groups.route(is_parted=turn % 2 == 0)
        time.sleep(0.02)
    is_over.set()
    asking.join(10)
    assert set(seen) == {200}
    assert seen[200] >= 30


@pytest.fixture
def groups(tmp_path: Path) -> Iterator[GroupsBehindEnvoy]:
    valkey = ValkeyServer()
    valkey.start()
    with ExitStack() as stack:
        stack.callback(valkey.remove)
        yield GroupsBehindEnvoy(tmp_path, valkey, stack)


def test_offline_workers_answer_what_a_step_of_load_leaves_over_and_where_the_online_one_died(
    groups: GroupsBehindEnvoy,
) -> None:
    groups.part()
    kept = EnvoyFileStore(groups.envoy.layout).observation(STABLE.name)
    assert kept is not None
    assert [one.port for one in kept.endpoints if one.is_spare] == [groups.offline.port]
    for _ in range(3):
        assert groups.ask(1, 0) == {200: 1}
    assert groups.answered(groups.offline) == 0, "without need it gets no request"

    assert groups.ask(2 * (1 + QUEUE), 0.4) == {200: 2 * (1 + QUEUE)}
    assert groups.answered(groups.online) == 3 + 1 + QUEUE
    assert groups.answered(groups.offline) == 1 + QUEUE, "beside its job"
    assert groups.answered(groups.online, 429) == 1 + QUEUE, "by which the guard knows of it"

    change_groups_under_load(groups)

    groups.online.process.kill()
    groups.online.process.wait()
    assert groups.ask(1, 0) == {200: 1}
