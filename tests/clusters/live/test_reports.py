"""Reports over HTTP, by whom and in which order: the real server and the real Valkey."""

import asyncio
from typing import Any

import httpx2
import pytest
from django.utils import timezone

from accounts.services.people import create_machine
from accounts.services.tokens import revoke_of_part
from accounts.states import Right, Role
from clusters.models import Cluster, Worker
from clusters.services.report_tokens import issue_report_token
from tests.cast import SYSTEM, person, token_of
from tests.clusters.live.rig import Site, heartbeat, report, token_of_node, until
from tests.clusters.world import Scene, node_of
from tests.patience import PATIENCE_SECONDS, cancelled

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.stack]


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


async def test_the_token_of_a_deployment_speaks_for_its_own_workers_and_until_it_is_revoked(
    site, row, client, monkeypatch
) -> None:
    from clusters.api import fast_ingest

    monkeypatch.setattr(fast_ingest, "TRUST_SECONDS", 0.0)
    other = await asyncio.to_thread(lambda: Scene().deployment("chat-v2", next_at=None))
    seen = {"uid": "far", "name": "far", "state": "ready", "state_since": timezone.now()}
    await Worker.objects.acreate(deployment=other, **seen)
    issued = await asyncio.to_thread(issue_report_token, actor=SYSTEM, deployment=row)
    headers = {"Authorization": f"Bearer {issued.text}"}

    async def beat(document: Any) -> httpx2.Response:
        return await client.post("heartbeats/", json=document, headers=headers)

    assert (await beat(heartbeat(0, busy=0.5))).json() == {"accepted": 1, "refused": []}
    refused = await beat(heartbeat(0, worker="far", deployment="chat-v2"))
    assert refused.status_code == 403
    assert "There is no worker far for which you may report" in refused.json()["detail"]
    await until_known_busy(0.5)
    assert (await client.get("workers/chat-v1-0/log/", headers=headers)).status_code == 403
    answer = await client.post("node-reports/", json={}, headers=headers)
    assert (answer.status_code, "of no machine" in answer.json()["detail"]) == (403, True)
    await asyncio.to_thread(revoke_of_part, actor=SYSTEM, token=issued.token, reason="over")
    assert (await beat(heartbeat(0))).status_code == 401


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


async def until_known_busy(busy: float) -> None:
    """Until any process reads this of the first worker; not before what came in since would show."""
    from clusters.heartbeat_records import latest

    await asyncio.sleep(1.2)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (beats := await asyncio.to_thread(latest)) is None or beats["chat-v1-0"].busy != busy:
            await asyncio.sleep(0.1)


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
            await until_known_busy(0.2)

            # The agent has started anew, and the one before it wakes up.
            assert (await report(beside, agent, heartbeat(busy=0.3), session=second, sequence=1)).is_success
            for web in (client, beside):
                old = await report(web, agent, heartbeat(busy=0.9), session=first, sequence=10)
                assert old.status_code == 409
                assert "Another session has replaced session-one" in old.json()["detail"]
            await until_known_busy(0.3)
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
        await until(page, "worker.chat-v1-1.alert", "", known=values)
    await cancelled(reporting)


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
