"""Pages hear reports over websockets: the real server, the real Valkey, real sockets."""

import asyncio
import json

import pytest
import websockets

from tests.cast import person, token_of
from tests.clusters.live.rig import heartbeat, report, until
from tests.patience import PATIENCE_SECONDS, cancelled

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.stack]


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


async def test_a_page_that_opens_after_the_first_report_is_kept_up_to_date(site, row, client, agent) -> None:
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
        await cancelled(reporting)


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
