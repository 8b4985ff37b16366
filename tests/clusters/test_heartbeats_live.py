"""Workers report over HTTP, pages hear over websockets: the real server, the real Valkey, real sockets."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest
import pytest_asyncio
import uvicorn
import websockets
from django.utils import timezone

from accounts.states import Right
from clusters.models import Deployment, Worker
from clusters.states import DeploymentState, WorkerState
from serving.protocol import Heartbeat
from tests.cast import person, token_of
from tests.clusters.world import Scene

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.stack]


class Site:
    """The console's ASGI application under uvicorn, in a thread of this process."""

    def __init__(self) -> None:
        from controlplane.asgi import application

        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        config = uvicorn.Config(application, log_level="warning", lifespan="off", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]})
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(10)
        assert not self._thread.is_alive()

    def socket(self, path: str, token: str, **headers: str) -> Any:
        return websockets.connect(
            f"ws://{self.address}{path}",
            additional_headers={"Authorization": f"Bearer {token}", **headers},
            open_timeout=5,
        )


@pytest.fixture
def site(valkey) -> Iterator[Site]:
    site = Site()
    yield site
    site.stop()


@pytest.fixture
def row(db) -> Deployment:
    scene = Scene()
    row = scene.deployment("chat-v1", replicas=2, state=DeploymentState.READY, next_at=None)
    for ordinal in range(2):
        Worker.objects.create(
            deployment=row,
            name=f"chat-v1-{ordinal}",
            uid=f"chat-v1-{ordinal}",
            pid=100 + ordinal,
            address="127.0.0.1",
            port=20_000 + ordinal,
            state=WorkerState.READY,
            state_since=timezone.now(),
        )
    return row


@pytest_asyncio.fixture
async def client(site: Site) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=f"http://{site.address}/api/v1/") as client:
        yield client


def heartbeat(ordinal: int = 0, **fields: Any) -> dict[str, Any]:
    given = {
        "worker": f"chat-v1-{ordinal}",
        "deployment": "chat-v1",
        "service": "chat",
        "version": "story:v1",
        "engine": "echo",
        "device": "cpu",
        "machine": "box-1",
        "address": "127.0.0.1",
        "port": 20_000 + ordinal,
        "pid": 100 + ordinal,
        "state": "ready",
        "busy": 0.25,
        "in_flight": 1,
        "slots": 4,
        "started_at": 1.0,
        "at": time.time(),
    } | fields
    return Heartbeat(**given).to_dict()


async def report(client: httpx2.AsyncClient, token: str, *beats: Any) -> httpx2.Response:
    return await client.post(
        "heartbeats/", json={"workers": beats}, headers={"Authorization": f"Bearer {token}"}
    )


async def until(
    page: Any, path: str, value: Any, *, known: dict[str, Any] | None = None, within: float = 10.0
) -> dict[str, Any]:
    """Everything that the page knows by the time that it shows this value."""
    values = dict(known or {})
    async with asyncio.timeout(within):
        while values.get(path) != value:
            frame = json.loads(await page.recv())
            values |= frame.get("values", {})
    return values


async def test_what_a_worker_reports_is_on_the_page_within_two_seconds(site, row, client) -> None:
    ada = await asyncio.to_thread(person, "ada", vision="admin")
    token = await asyncio.to_thread(token_of, ada)
    async with site.socket("/ws/fleet/", token) as page:
        first = json.loads(await page.recv())
        assert first["type"] == "snapshot"
        assert first["values"]["worker.chat-v1-0.busy"] is None
        answer = await report(client, token, heartbeat(0, busy=0.5), heartbeat(1, busy=1.0, slots=12))
        assert answer.json() == {"accepted": 2, "refused": []}
        values = await until(page, "worker.chat-v1-0.busy", 0.5, within=2.5)
        # Weighted by slots: (0.5 * 4 + 1.0 * 12) / 16.
        assert values["cluster.local.busy"] == 0.88
        assert first["values"]["deployment.chat-v1.ready"] == 2


async def test_a_page_that_opens_after_the_first_heartbeat_is_kept_up_to_date(site, row, client) -> None:
    """What runs in the background must not depend on the request that happened to start it."""
    ada = await asyncio.to_thread(person, "ada", vision="admin")
    token = await asyncio.to_thread(token_of, ada)
    await report(client, token, heartbeat(0, busy=0.5))
    await asyncio.sleep(1.2)
    async with site.socket("/ws/fleet/", token) as page:
        await until(page, "worker.chat-v1-0.busy", 0.5, within=3)
        await report(client, token, heartbeat(0, busy=0.7))
        await until(page, "worker.chat-v1-0.busy", 0.7, within=3)


async def test_a_silent_worker_is_lost_and_a_full_one_is_stuck(site, row, client, monkeypatch) -> None:
    from clusters import alerts, fleet

    monkeypatch.setattr(alerts, "STUCK_AFTER_SECONDS", 1.0)
    for module in (alerts, fleet):
        monkeypatch.setattr(module, "LOST_AFTER_SECONDS", 2.0)
    ada = await asyncio.to_thread(person, "ada", vision="admin")
    token = await asyncio.to_thread(token_of, ada)
    async with site.socket("/ws/fleet/", token) as page:
        await report(client, token, heartbeat(0))

        async def keep_reporting() -> None:
            while True:
                await report(client, token, heartbeat(1, busy=1.0))
                await asyncio.sleep(0.5)

        reporting = asyncio.create_task(keep_reporting())
        values = await until(page, "worker.chat-v1-1.alert", "stuck")
        values = await until(page, "worker.chat-v1-0.alert", "lost", known=values)
        assert values["cluster.local.stuck"] == 1
        reporting.cancel()
        await asyncio.gather(reporting, return_exceptions=True)


async def test_each_bad_entry_is_refused_in_words_and_the_good_ones_count(site, row, client) -> None:
    ada = await asyncio.to_thread(person, "ada", vision="operator")
    token = await asyncio.to_thread(token_of, ada)
    answer = await report(
        client,
        token,
        heartbeat(0),
        heartbeat(0, worker="chat-v9-0"),
        heartbeat(0, worker="chat-v1-0x"),
        heartbeat(0, worker="chat-v1-999"),
        heartbeat(0, deployment="chat-v9"),
        heartbeat(0, service="other"),
        heartbeat(0, version="story:v9"),
        {"worker": "chat-v1-1"},
        7,
    )
    body = answer.json()
    assert answer.status_code == 200
    assert body["accepted"] == 1
    reasons = [refusal["reason"] for refusal in body["refused"]]
    assert len(reasons) == 8
    assert reasons[0] == "chat-v9-0 is no worker of chat-v1."
    assert reasons[3] == "There is no deployment chat-v9 for which you may report."
    assert reasons[4] == "chat-v1 serves chat, not other."
    assert reasons[6] == "deployment is missing."


@pytest.mark.parametrize(
    ("scopes", "role", "status"),
    [
        ([Right.READ], "admin", 403),
        ([Right.FLEET_REPORT], "viewer", 403),
        ([Right.FLEET_REPORT], "operator", 200),
    ],
)
async def test_only_who_may_report_reports(site, row, client, scopes, role, status) -> None:
    ada = await asyncio.to_thread(person, "ada", vision=role)
    token = await asyncio.to_thread(token_of, ada, scopes=scopes)
    answer = await report(client, token, heartbeat())
    assert answer.status_code == status


async def test_a_reporter_of_one_team_cannot_speak_for_another(site, row, client) -> None:
    bob = await asyncio.to_thread(person, "bob", speech="operator")
    token = await asyncio.to_thread(token_of, bob)
    body = (await report(client, token, heartbeat())).json()
    assert body["accepted"] == 0
    assert "There is no deployment chat-v1" in body["refused"][0]["reason"]


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"", 400), (b"{", 400), (b"[]", 400), (b'{"workers": {}}', 400), (b'{"workers": []}', 200)],
)
async def test_what_is_no_batch_is_a_problem(site, row, client, body, status) -> None:
    ada = await asyncio.to_thread(person, "ada", vision="operator")
    token = await asyncio.to_thread(token_of, ada)
    answer = await client.post("heartbeats/", content=body, headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == status
    if status != 200:
        assert answer.headers["content-type"] == "application/problem+json"


async def test_nobody_reports_without_a_token(site, row, client) -> None:
    answer = await client.post("heartbeats/", json={"workers": []})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="slipway"'


async def test_other_teams_workers_are_hidden_and_shared_machines_are_not(site, row, client) -> None:
    bob = await asyncio.to_thread(person, "bob", speech="viewer")
    token = await asyncio.to_thread(token_of, bob)
    async with site.socket("/ws/fleet/", token) as page:
        values = json.loads(await page.recv())["values"]
    assert "cluster.local.busy" in values
    assert not [path for path in values if "chat" in path]


async def test_a_page_elsewhere_cannot_use_a_session(site, row) -> None:
    from django.test import Client

    client = Client()
    ada = await asyncio.to_thread(person, "ada", vision="viewer")
    await asyncio.to_thread(client.force_login, ada)
    cookie = {"Cookie": f"sessionid={client.cookies['sessionid'].value}"}
    with pytest.raises(websockets.InvalidStatus):
        async with websockets.connect(
            f"ws://{site.address}/ws/fleet/", origin="http://evil.example.org", additional_headers=cookie
        ):
            pass
    async with websockets.connect(
        f"ws://{site.address}/ws/fleet/", origin=f"http://{site.address}", additional_headers=cookie
    ) as page:
        assert json.loads(await page.recv())["type"] == "snapshot"


async def test_nobody_is_told_4401_and_who_may_read_nothing_4403(site, row) -> None:
    async with site.socket("/ws/fleet/", "slp_nobody") as page:
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await page.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4401
    loner = await asyncio.to_thread(person, "loner")
    token = await asyncio.to_thread(token_of, loner)
    async with site.socket("/ws/fleet/", token) as page:
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await page.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4403


async def test_a_path_without_a_topic_is_refused(site) -> None:
    with pytest.raises(websockets.InvalidStatus):
        async with site.socket("/ws/nowhere/", "x"):
            pass


async def test_heartbeats_survive_a_restart_of_redis(site, row, client, valkey) -> None:
    ada = await asyncio.to_thread(person, "ada", vision="admin")
    token = await asyncio.to_thread(token_of, ada)
    async with site.socket("/ws/fleet/", token) as page:
        await report(client, token, heartbeat(0, busy=0.1))
        await until(page, "worker.chat-v1-0.busy", 0.1)
        valkey.stop()
        await report(client, token, heartbeat(0, busy=0.2))
        values = await until(page, "worker.chat-v1-0.busy", 0.2)
        valkey.start()
        await until(page, "live", True, within=15) if not values.get("live", True) else None
    from clusters.heartbeat_records import latest
    from common.live.redis import breaker

    async with asyncio.timeout(10):
        while True:
            breaker.reset()
            beats = await asyncio.to_thread(latest)
            if beats and "chat-v1-0" in beats:
                break
            await asyncio.sleep(0.2)
    assert beats["chat-v1-0"].busy == 0.2
