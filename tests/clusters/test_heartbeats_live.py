"""Workers report over HTTP, pages hear over websockets: the real server, the real Valkey, real sockets."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from itertools import count
from typing import Any

import httpx2
import pytest
import pytest_asyncio
import uvicorn
import websockets
from django.utils import timezone

from accounts.services.people import create_machine
from accounts.states import Right, Role
from clusters.models import Cluster, Deployment, NodeAgent, Worker
from clusters.states import DeploymentState, WorkerState
from serving.protocol import Heartbeat
from tests.cast import SYSTEM, person, token_of
from tests.clusters.world import Scene, node_of
from tests.patience import PATIENCE_SECONDS

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
        self._thread.join(60)
        assert not self._thread.is_alive()

    def socket(self, path: str, token: str, **headers: str) -> Any:
        return websockets.connect(
            f"ws://{self.address}{path}",
            additional_headers={"Authorization": f"Bearer {token}", **headers},
            open_timeout=60,
        )


@pytest.fixture
def site(valkey) -> Iterator[Site]:
    site = Site()
    yield site
    site.stop()


@pytest.fixture
def row(db) -> Deployment:
    scene = Scene()
    node = node_of(scene.cluster, uid="box-1")
    row = scene.deployment("chat-v1", replicas=2, state=DeploymentState.READY, next_at=None)
    for ordinal in range(2):
        Worker.objects.create(
            deployment=row,
            node=node,
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


numbers = count(1)


async def report(client: httpx2.AsyncClient, token: str, *beats: Any, **fields: Any) -> httpx2.Response:
    document = {
        "node": "box-1",
        "session": "first-session",
        "sequence": next(numbers),
        "workers": beats,
        "devices": [],
    }
    headers = {"Authorization": f"Bearer {token}"}
    return await client.post("node-reports/", json=document | fields, headers=headers)


def token_of_node(owner: Any, cluster: Cluster, **fields: Any) -> str:
    token = token_of(owner, **fields)
    NodeAgent.objects.create(cluster=cluster, node_uid="box-1", token=owner.tokens.latest("pk"))
    return token


@pytest.fixture
def agent(row: Deployment) -> str:
    """The token of the machine on which the workers are."""
    robot = create_machine(actor=SYSTEM, username="node-agents")
    return token_of_node(robot, row.cluster, scopes=[Right.FLEET_REPORT])


async def until(
    page: Any, path: str, value: Any, *, known: dict[str, Any] | None = None, within: float = PATIENCE_SECONDS
) -> dict[str, Any]:
    """Everything that the page knows by the time that it shows this value."""
    values = dict(known or {})
    async with asyncio.timeout(within):
        while values.get(path) != value:
            frame = json.loads(await page.recv())
            values |= frame.get("values", {})
    return values


async def test_what_a_worker_reports_is_on_the_page(site, row, client, agent) -> None:
    ada = await asyncio.to_thread(person, "ada", vision="admin")
    token = await asyncio.to_thread(token_of, ada)
    async with site.socket("/ws/fleet/", token) as page:
        first = json.loads(await page.recv())
        assert first["type"] == "snapshot"
        assert first["values"]["worker.chat-v1-0.busy"] is None
        answer = await report(client, agent, heartbeat(0, busy=0.5), heartbeat(1, busy=1.0, slots=12))
        assert answer.json() == {"accepted": 2, "refused": []}
        values = await until(page, "worker.chat-v1-0.busy", 0.5)
        # Weighted by slots: (0.5 * 4 + 1.0 * 12) / 16.
        assert values["cluster.local.busy"] == 0.88
        assert first["values"]["deployment.chat-v1.ready"] == 2


async def test_a_worker_without_an_agent_reports_itself_where_its_token_may(site, row, client, agent) -> None:
    robot = await asyncio.to_thread(create_machine, actor=SYSTEM, username="workers")
    own = await asyncio.to_thread(token_of, robot, scopes=[Right.FLEET_REPORT])
    ada = await asyncio.to_thread(person, "ada", vision="admin")
    token = await asyncio.to_thread(token_of, ada)

    async def beat(text: str, *workers: Any) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {text}"}
        return await client.post("heartbeats/", json={"workers": workers}, headers=headers)

    async with site.socket("/ws/fleet/", token) as page:
        stranger = heartbeat(0) | {"worker": "chat-v1-7"}
        answer = await beat(own, heartbeat(0, busy=0.5), stranger, heartbeat(1, version="story:v2"))
        assert answer.status_code == 200, answer.text
        told = answer.json()
        assert told["accepted"] == 1
        assert [one["worker"] for one in told["refused"]] == ["chat-v1-7", "chat-v1-1"]
        assert "for which you may report" in told["refused"][0]["reason"]
        assert "belongs to story:v1, not story:v2" in told["refused"][1]["reason"]
        await until(page, "worker.chat-v1-0.busy", 0.5)
        # What the machine's agent says afterwards is newer.
        await report(client, agent, heartbeat(0, busy=0.7))
        await until(page, "worker.chat-v1-0.busy", 0.7)
    looker = await asyncio.to_thread(person, "eve", ours=Role.VIEWER)
    assert (await beat(await asyncio.to_thread(token_of, looker), heartbeat(0))).status_code == 403
    assert (await beat(own)).json() == {"accepted": 0, "refused": []}
    assert (await client.post("heartbeats/", json=[])).status_code == 401


async def test_a_page_that_opens_after_the_first_report_is_kept_up_to_date(site, row, client, agent) -> None:
    """What runs in the background must not depend on the request that happened to start it."""
    ada = await asyncio.to_thread(person, "ada", vision="admin")
    token = await asyncio.to_thread(token_of, ada)
    await report(client, agent, heartbeat(0, busy=0.5))
    await asyncio.sleep(1.2)
    async with site.socket("/ws/fleet/", token) as page:
        await until(page, "worker.chat-v1-0.busy", 0.5)
        await report(client, agent, heartbeat(0, busy=0.7))
        await until(page, "worker.chat-v1-0.busy", 0.7)


async def test_a_silent_worker_is_lost_and_a_full_one_is_stuck(site, row, client, agent, monkeypatch) -> None:
    from clusters import alerts, fleet

    monkeypatch.setattr(alerts, "STUCK_AFTER_SECONDS", 1.0)
    for module in (alerts, fleet):
        monkeypatch.setattr(module, "LOST_AFTER_SECONDS", 2.0)
    ada = await asyncio.to_thread(person, "ada", vision="admin")
    token = await asyncio.to_thread(token_of, ada)
    async with site.socket("/ws/fleet/", token) as page:
        await report(client, agent, heartbeat(0))

        async def keep_reporting() -> None:
            while True:
                await report(client, agent, heartbeat(1, busy=1.0))
                await asyncio.sleep(0.5)

        reporting = asyncio.create_task(keep_reporting())
        values = await until(page, "worker.chat-v1-1.alert", "stuck")
        values = await until(page, "worker.chat-v1-0.alert", "lost", known=values)
        assert values["cluster.local.stuck"] == 1
        reporting.cancel()
        await asyncio.gather(reporting, return_exceptions=True)


async def test_each_bad_entry_is_refused_in_words_and_the_good_ones_count(site, row, client, agent) -> None:
    elsewhere = await asyncio.to_thread(node_of, row.cluster, "other")
    await Worker.objects.filter(name="chat-v1-1").aupdate(node=elsewhere)
    answer = await report(
        client,
        agent,
        heartbeat(0),
        heartbeat(0, worker="chat-v9-0"),
        heartbeat(1),
        heartbeat(0, deployment="chat-v9"),
        heartbeat(0, service="other"),
        heartbeat(0, version="story:v9"),
        {"worker": "chat-v1-1"},
        7,
        devices=[{"uuid": "GPU-1", "readings": {"temperature_celsius": 61}}, {"uuid": "GPU-2"}],
    )
    body = answer.json()
    assert answer.status_code == 200
    assert body["accepted"] == 2
    assert [refusal["reason"] for refusal in body["refused"]] == [
        "The cluster shows no worker chat-v9-0: report it again in a moment.",
        "chat-v1-1 runs on another machine.",
        "chat-v1-0 belongs to chat-v1, not chat-v9.",
        "chat-v1-0 belongs to chat, not other.",
        "chat-v1-0 belongs to story:v1, not story:v9.",
        "deployment is missing.",
        "heartbeat must be an object.",
        "readings is missing.",
    ]


@pytest.mark.parametrize(
    ("scopes", "roles", "status"),
    [
        (set(Right) - {Right.FLEET_REPORT}, {"vision": "admin"}, 403),
        ({Right.FLEET_REPORT}, {"vision": "viewer"}, 403),
        ({Right.FLEET_REPORT}, {"speech": "operator"}, 403),
        ({Right.FLEET_REPORT}, {"vision": "operator"}, 200),
    ],
)
async def test_only_who_may_report_the_cluster_reports(site, row, client, scopes, roles, status) -> None:
    await Cluster.objects.filter(pk=row.cluster_id).aupdate(team=row.team)
    ada = await asyncio.to_thread(person, "ada", **roles)
    cluster = await Cluster.objects.aget(pk=row.cluster_id)
    token = await asyncio.to_thread(token_of_node, ada, cluster, scopes=scopes)
    assert (await report(client, token, heartbeat())).status_code == status


async def test_a_token_reports_its_own_machine_and_no_other(site, row, client, agent) -> None:
    answer = await report(client, agent, heartbeat(), node="box-2")
    assert answer.status_code == 403
    assert "This token is of the machine box-1: it cannot report box-2." in answer.json()["detail"]
    ada = await asyncio.to_thread(person, "ada", vision="operator")
    token = await asyncio.to_thread(token_of, ada, scopes=[Right.FLEET_REPORT])
    answer = await report(client, token, heartbeat())
    assert (answer.status_code, "of no machine" in answer.json()["detail"]) == (403, True)


async def known_busy() -> float:
    """What any process reads of the first worker."""
    from clusters.heartbeat_records import latest

    await asyncio.sleep(1.2)
    beats = await asyncio.to_thread(latest)
    assert beats is not None
    return beats["chat-v1-0"].busy


async def test_what_is_late_is_refused_by_every_web_and_moves_nothing_back(site, row, client, agent) -> None:
    other = Site()
    try:
        async with httpx2.AsyncClient(base_url=f"http://{other.address}/api/v1/") as beside:
            first, second = "session-one", "session-two"
            assert (await report(client, agent, heartbeat(busy=0.1), session=first, sequence=8)).is_success
            assert (await report(beside, agent, heartbeat(busy=0.2), session=first, sequence=9)).is_success
            for web in (client, beside):
                for sequence in (8, 9):
                    late = await report(web, agent, heartbeat(busy=0.9), session=first, sequence=sequence)
                    assert late.status_code == 409
                    assert f"Report {sequence} comes late" in late.json()["detail"]
            assert await known_busy() == 0.2

            # The agent has started anew, and the one before it wakes up.
            assert (await report(beside, agent, heartbeat(busy=0.3), session=second, sequence=1)).is_success
            for web in (client, beside):
                old = await report(web, agent, heartbeat(busy=0.9), session=first, sequence=10)
                assert old.status_code == 409
                assert "Another session has replaced session-one" in old.json()["detail"]
            assert await known_busy() == 0.3
    finally:
        other.stop()


async def test_a_heartbeat_that_is_repeated_is_no_sign_of_life(site, row, client, agent, monkeypatch) -> None:
    from clusters import alerts, fleet

    for module in (alerts, fleet):
        monkeypatch.setattr(module, "LOST_AFTER_SECONDS", 2.0)
    ada = await asyncio.to_thread(person, "ada", vision="admin")
    token = await asyncio.to_thread(token_of, ada)
    said = heartbeat(0)

    async def keep_reporting() -> None:
        while True:
            await report(client, agent, said, heartbeat(1))
            await asyncio.sleep(0.3)

    reporting = asyncio.create_task(keep_reporting())
    async with site.socket("/ws/fleet/", token) as page:
        values = await until(page, "worker.chat-v1-0.alert", "lost")
        assert values["worker.chat-v1-1.alert"] == ""
    reporting.cancel()
    await asyncio.gather(reporting, return_exceptions=True)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[]", "a node report must be an object."),
        (b'{"node": "box-1"}', "session is missing."),
        (b'{"node": "box-1", "session": "12345678", "sequence": 0}', "sequence must be from 1"),
    ],
)
async def test_what_is_no_report_is_a_problem(site, row, client, agent, body, said) -> None:
    headers = {"Authorization": f"Bearer {agent}"}
    answer = await client.post("node-reports/", content=body, headers=headers)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert said in answer.text


async def test_nobody_reports_without_a_token(site, row, client) -> None:
    answer = await client.post("node-reports/", json={"workers": []})
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


async def test_heartbeats_survive_a_restart_of_redis(site, row, client, agent, valkey) -> None:
    ada = await asyncio.to_thread(person, "ada", vision="admin")
    token = await asyncio.to_thread(token_of, ada)
    async with site.socket("/ws/fleet/", token) as page:
        await report(client, agent, heartbeat(0, busy=0.1))
        await until(page, "worker.chat-v1-0.busy", 0.1)
        valkey.stop()
        await report(client, agent, heartbeat(0, busy=0.2))
        values = await until(page, "worker.chat-v1-0.busy", 0.2)
        valkey.start()
        await until(page, "live", True) if not values.get("live", True) else None
    from clusters.heartbeat_records import latest
    from common.live.redis import breaker

    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            breaker.reset()
            beats = await asyncio.to_thread(latest)
            if beats and "chat-v1-0" in beats:
                break
            await asyncio.sleep(0.2)
    assert beats["chat-v1-0"].busy == 0.2
