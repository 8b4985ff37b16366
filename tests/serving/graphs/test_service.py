"""A graph served like any app: items by HTTP, progress as events, counters, another plan at the worker."""

import base64
import json
from typing import Any

import httpx2
import pytest

from serving.graphs.plan import EntryLimits, GraphPlan, TaskPlan
from tests.serving.graphs.apps import DIFFICULT
from tests.serving.runtime.rig import BackgroundCall, service, until_ended
from tests.serving.workers import RunningWorker

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]


def test_a_worker_serves_the_graph_of_a_file(tmp_path):
    with service(tmp_path / "app", DIFFICULT) as worker:
        together = [BackgroundCall(worker, "/run", number) for number in range(20, 32)]
        assert [one.result() for one in together] == [(200, number * 10 + 1) for number in range(20, 32)]

        failed = httpx2.post(f"{worker.url}/run", content=b"7", timeout=30)
        assert (failed.status_code, failed.json()["detail"]) == (422, "Risky: ValueError: 7 is poison")
        late = httpx2.post(
            f"{worker.url}/run", content=b"8", headers={"x-slipway-timeout-ms": "1"}, timeout=30
        )
        assert late.status_code == 504

        events = httpx2.post(f"{worker.url}/run/stream", content=b"50", timeout=30).text.split("\n\n")
        *progress, last = [json.loads(one.removeprefix("data: ")) for one in events if one]
        assert [one["node"] for one in progress] == ["Risky", "picture", "checked"]
        assert base64.b64decode(last["outputs"][""]["base64"]) == b"501"

        names = ("Risky", "picture", "checked", "slow")
        plan = GraphPlan(tasks={name: TaskPlan(replicas=2) for name in names}, entry=EntryLimits(items=4))
        taken = httpx2.post(f"{worker.url}/plan", json=plan.document(), timeout=60)
        assert taken.json()["tasks"]["slow"]["replicas"] == 2
        through_gateway = httpx2.post(
            f"{worker.url}/plan", json=plan.document(), headers={"x-forwarded-prefix": "/x"}, timeout=60
        )
        assert through_gateway.status_code == 404

        counters = httpx2.get(f"{worker.url}/counters", timeout=30).json()
        assert counters["done"] == 13
        assert counters["tasks"]["picture"]["replicas"] == 2
        spans = httpx2.get(f"{worker.url}/timeline?item=1", timeout=30).json()["spans"]
        assert [one["node"] for one in spans] == ["Risky", "picture", "checked", "slow"]

        metrics = httpx2.get(f"{worker.url}/metrics", timeout=30).text
        assert 'slipway_worker_model_seconds_count{method="slow"} 13.0' in metrics
        assert 'slipway_worker_batch_size_count{method="Risky"}' in metrics

        done = _queued(worker, b"60")
        assert (done["state"], done["progress"]) == ("succeeded", 1)
        assert httpx2.get(f"{worker.url}{done['links']['result']}", timeout=30).text == "601"
        poisoned = _queued(worker, b"7")
        assert (poisoned["state"], poisoned["status"]) == ("failed", 422)
        assert "7 is poison" in poisoned["error"]


def _queued(worker: RunningWorker, item: bytes) -> dict[str, Any]:
    """Put an item into the queue and wait for its end."""
    accepted = httpx2.post(f"{worker.url}/run/jobs", content=item, timeout=30)
    assert accepted.status_code == 202
    return until_ended(worker, accepted.headers["location"])
