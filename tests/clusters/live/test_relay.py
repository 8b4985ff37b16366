"""Workers report through the relay of their cluster: real processes, the real server and the real Valkey."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2
import pytest
from django.utils import timezone

from accounts.services.tokens import revoke_of_part
from clusters import selectors
from clusters.heartbeat_records import latest
from clusters.models import Cluster, Deployment, Worker
from clusters.report_tokens import REPORT_TOKEN_PURPOSE
from clusters.services import relay_reports
from clusters.services.report_tokens import issue_relay_token, issue_report_token
from clusters.states import Alert, ClusterKind
from common.sealed import seal
from controlplane.environment import PROJECT
from tests.cast import SYSTEM
from tests.clusters.live.rig import Site, heartbeat
from tests.patience import PATIENCE_SECONDS
from tests.ports import PortBlock
from tests.serving.test_scraping import serving, text
from tests.serving.workers import running

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.stack]


@contextmanager
def relay_of(cluster: Cluster, site: Site, place: Path) -> Iterator[int]:
    """The port on which a relay hears workers."""
    token = place / "relay-token"
    token.write_text(issue_relay_token(actor=SYSTEM, cluster=cluster).text)
    port = PortBlock()[0]
    command = [
        "-m",
        "serving.relay",
        f"--url=http://{site.address}",
        f"--token-file={token}",
        f"--port={port}",
    ]
    process = subprocess.Popen([sys.executable, *command], cwd=PROJECT)
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            with suppress(httpx2.HTTPError):
                if httpx2.get(f"http://127.0.0.1:{port}/healthz").status_code == 200:
                    break
            time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait(20)


def in_pods(row: Deployment) -> Cluster:
    settings = {"report_url": "https://slipway", "relay_image": "x"}
    Cluster.objects.filter(pk=row.cluster_id).update(kind=ClusterKind.KUBERNETES, settings=settings)
    return Cluster.objects.get(pk=row.cluster_id)


async def until_heard(*workers: str) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not set(workers) <= (await asyncio.to_thread(latest) or {}).keys():
            await asyncio.sleep(0.1)


async def test_a_worker_in_a_pod_is_seen_live_through_the_relay(site, row, tmp_path) -> None:
    cluster = await asyncio.to_thread(in_pods, row)
    issued = await asyncio.to_thread(issue_report_token, actor=SYSTEM, deployment=row)
    token = tmp_path / "token"
    token.write_text(issued.text)
    who = {"name": "chat-v1-0", "deployment": "chat-v1", "service": "chat", "version_label": "story:v1"}
    (tmp_path / "model").mkdir()

    def play() -> None:
        with relay_of(cluster, site, tmp_path) as port:
            url = f"http://127.0.0.1:{port}/api/v1/heartbeats/"
            with running(
                tmp_path / "worker.log",
                model_dir=tmp_path / "model",
                heartbeat_url=url,
                heartbeat_token_file=str(token),
                **who,
            ):
                asyncio.run(until_heard("chat-v1-0"))
            refused = httpx2.post(url, json=heartbeat(0), headers={"Authorization": "Bearer slp_guess"})
            assert refused.status_code == 401

    await asyncio.to_thread(play)


async def test_a_server_without_heartbeats_is_read_by_the_relay(site, row, tmp_path) -> None:
    cluster = await asyncio.to_thread(in_pods, row)
    async with serving(text("vllm")) as port:
        server = {"server": {"metrics_port": port}}
        await Deployment.objects.filter(pk=row.pk).aupdate(engine="vllm", pod=server)
        await Worker.objects.filter(name="chat-v1-0").aupdate(address="127.0.0.1")

        def play() -> None:
            with relay_of(cluster, site, tmp_path):
                asyncio.run(until_heard("chat-v1-0"))

        await asyncio.to_thread(play)
        found = (await asyncio.to_thread(latest) or {})["chat-v1-0"]
        assert (found.in_flight, found.queue_depth, found.requests) == (3, 2, 167)


async def test_only_the_relays_token_reports_a_whole_cluster_and_no_other_cluster(
    site, row, client, monkeypatch
) -> None:
    monkeypatch.setattr(relay_reports, "TOLD_SECONDS", 0.0)
    cluster = await asyncio.to_thread(in_pods, row)
    relay = await asyncio.to_thread(issue_relay_token, actor=SYSTEM, cluster=cluster)
    own = await asyncio.to_thread(issue_report_token, actor=SYSTEM, deployment=row)
    elsewhere = await Cluster.objects.acreate(name="elsewhere", kind=ClusterKind.KUBERNETES)
    other = await asyncio.to_thread(issue_relay_token, actor=SYSTEM, cluster=elsewhere)
    numbers = iter(range(1, 99))

    async def report(text: str, known: str = "", **fields: object) -> httpx2.Response:
        machines = [{"machine": "box-1", "workers": [heartbeat(0, **fields)]}]
        document = {"session": "one", "sequence": next(numbers), "known": known, "machines": machines}
        return await client.post("relay-reports/", json=document, headers={"Authorization": f"Bearer {text}"})

    told = (await report(relay.text)).json()
    assert (told["accepted"], told["refused"], told["targets"]) == (1, [], [])
    assert told["reporters"] == {own.token.secret_hash: "chat-v1"}
    assert "reporters" not in (await report(relay.text, known=told["revision"])).json()
    refused = (await report(relay.text, version="story:v2")).json()["refused"]
    assert "belongs to story:v1, not story:v2" in refused[0]["reason"]
    assert "The cluster shows no worker" in (await report(other.text)).json()["refused"][0]["reason"]
    assert "of no relay" in (await report(own.text)).json()["detail"]
    await asyncio.to_thread(revoke_of_part, actor=SYSTEM, token=own.token, reason="It stood in a log.")
    assert (await report(relay.text, known=told["revision"])).json()["reporters"] == {}


async def test_a_silent_relay_is_no_word_on_the_workers_behind_it(site, row) -> None:
    await asyncio.to_thread(in_pods, row)
    await Deployment.objects.filter(pk=row.pk).aupdate(
        observed_at=timezone.now(), sealed_report_token=seal("x", purpose=REPORT_TOKEN_PURPOSE)
    )
    early = timezone.now() - timezone.timedelta(minutes=1)
    await Worker.objects.filter(deployment=row).aupdate(state_since=early)
    found = await asyncio.to_thread(selectors.deployments_now, ["chat-v1"])
    assert {one.alert for one in found["chat-v1"].workers} == {Alert.NONE}
