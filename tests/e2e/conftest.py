"""A whole stack of one's own, a model with several versions, and people: what a release needs."""

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
from playwright.sync_api import expect
from safetensors.numpy import save_file

from controlplane.environment import PROJECT
from slipway.client import Client, Document, ServerRefused, at
from tests.patience import PATIENCE_SECONDS, eventually
from tests.postgres import database_of_its_own
from tests.prepared import prepare_home, prepare_static
from tests.stack.conftest import RunningStack

MODEL = "parrot"
SERVICE = "talk"
expect.set_options(timeout=4_000 * PATIENCE_SECONDS)

SWIFT: dict[str, Any] = {
    "description": "As canary-quick, in seconds.",
    "steps": [
        {"kind": "scan"},
        {"kind": "deploy", "share_percent": 100, "ready_within_seconds": 60},
        {"kind": "smoke_test", "requests": 3, "timeout_seconds": 30},
        {"kind": "weight", "percent": 30},
        {"kind": "hold", "seconds": 4},
        {"kind": "judge", "at_most_seconds": 2, "on_insufficient": "ask"},
        {"kind": "approval", "timeout_seconds": 600},
        {"kind": "promote"},
    ],
}


def write_version(directory: Path, *, seed: int, **settings: dict[str, Any]) -> Path:
    """A directory in Hugging Face layout; its weights are noise, which the echo engine does not mind.

    `settings`: what its `slipway.json` says.
    """
    directory.mkdir(parents=True, exist_ok=True)
    weights = np.random.default_rng(seed).normal(size=(64, 64)).astype(np.float32)
    save_file({"model.embed_tokens.weight": weights}, directory / "model.safetensors")
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64}
    (directory / "config.json").write_text(json.dumps(config))
    if settings:
        (directory / "slipway.json").write_text(json.dumps(settings))
    return directory


class Traffic(threading.Thread):
    """Steady light requests through the gateway, counted by answering version and by failure."""

    def __init__(self, url: str, *, per_second: float = 25, model: str = MODEL) -> None:
        super().__init__(daemon=True)
        self.url = url
        self.model = model
        self.pause = 1 / per_second
        self.answers: Counter[str] = Counter()
        self.failures: list[str] = []
        self.latest: deque[str] = deque(maxlen=20)
        self._stop_asked = threading.Event()

    def run(self) -> None:
        body = {"model": self.model, "prompt": "say something", "max_tokens": 4}
        with httpx2.Client(timeout=20) as http:
            while not self._stop_asked.wait(self.pause):
                try:
                    answer = http.post(f"{self.url}/v1/completions", json=body)
                except httpx2.HTTPError as error:
                    self.failures.append(repr(error))
                    continue
                if answer.status_code == 200:
                    self.latest.append(answer.headers["x-slipway-version"])
                    self.answers[self.latest[-1]] += 1
                else:
                    self.failures.append(f"{answer.status_code} {answer.text[:200]}")

    def stop(self) -> None:
        self._stop_asked.set()
        self.join(30)


class Scene:
    """A running stack and what is in it."""

    def __init__(self, stack: RunningStack) -> None:
        self.stack = stack
        self.url = f"http://127.0.0.1:{stack.port}"
        self.gateway = f"http://127.0.0.1:{stack.gateway_port}"
        self.admin_password = (stack.home.path / "admin-password").read_text().strip()
        self.admin = Client(self.url, (stack.home.path / "admin-token").read_text().strip())
        token = self._robot("ci", role="developer", scopes=["read", "releases.start", "releases.operate"])
        self.ci = Client(self.url, token)
        self.ci_token = token

    def _robot(self, name: str, *, role: str, scopes: list[str]) -> str:
        self.admin.create(at("people"), {"username": name, "team": "default", "role": role})
        document = self.admin.post(at("tokens"), {"name": name, "owner": name, "scopes": scopes})
        return str(document["token"])

    def push(self, name: str, **how: Any) -> Document:
        source = write_version(self.stack.home.path / "imports" / MODEL / name, **how)
        version = self.admin.create(at("models", MODEL, "versions"), {"source": str(source), "version": name})
        address = at("models", MODEL, "versions", version["name"])
        eventually(lambda: self.admin.get(address)["state"] != "importing")
        version = self.admin.get(address)
        assert version["state"] == "ready", version
        return version

    def release(self, version: str, **body: Any) -> Document:
        wish = {"service": SERVICE, "version": version, "reason": "better"}
        return self.ci.create(at("releases"), wish | body)

    def wait_for(self, release: Document, *states: str, seconds: float = 240) -> Document:
        address = at("releases", release["id"])
        deadline = time.monotonic() + seconds
        while (seen := self.admin.get(address))["state"] not in states:
            assert time.monotonic() < deadline, seen
            time.sleep(0.2)
        return seen

    def slipway(self, *arguments: str, token: str = "") -> subprocess.CompletedProcess[str]:
        """The command line client, as a pipeline runs it."""
        environ = os.environ | {
            "SLIPWAY_URL": self.url,
            "SLIPWAY_TOKEN": token,
            "SLIPWAY_TOKEN_FILE": str(self.stack.home.path / "admin-token"),
        }
        return subprocess.run(
            [sys.executable, "-m", "slipway.cli", *arguments],
            cwd=PROJECT,
            env=environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def workers(self) -> Counter[str]:
        """Count the workers that really run for each deployment, whatever anybody reports."""
        words = (word for line in self.stack.left_over() for word in line.split())
        return Counter(
            word.removeprefix("--deployment=") for word in words if word.startswith("--deployment=")
        )

    def ask(self, *, release: str = "") -> httpx2.Response:
        headers = {"x-release": release} if release else {}
        body = {"model": MODEL, "prompt": "hello", "max_tokens": 4}
        return httpx2.post(f"{self.gateway}/{SERVICE}/v1/completions", json=body, headers=headers, timeout=60)


@contextmanager
def running_scene(home: Path, *, database_url: str) -> Iterator[Scene]:
    """Three versions, the first serving with two workers. `database_url` empty: SQLite."""
    if database_url:
        prepare_static(home)
    else:
        prepare_home(home)
    stack = RunningStack(home, "controlplane.embedded", database_url=database_url)
    try:
        stack.wait_until_ready(seconds=300)
        scene = Scene(stack)
        scene.admin.create(at("models"), {"name": MODEL, "task": "text-generation"})
        for number in (1, 2, 3):
            scene.push(f"v{number}", seed=number)
        scene.admin.create(at("plans"), {"name": "swift", "body": SWIFT})
        service = scene.admin.create(
            at("services"),
            {"name": SERVICE, "model": MODEL, "version": "v1"}
            | {"engine": "echo", "replicas": 2, "plan": "swift"},
        )
        scene.wait_for({"id": service["release_in_motion"]}, "promoted", "failed", "stuck")
        yield scene
    finally:
        stack.stop()


@pytest.fixture(scope="package")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """The one of all files that leave it as they find it: nothing in motion. What serves, they ask."""
    home = tmp_path_factory.mktemp("e2e") / "home"
    with running_scene(home, database_url=database_of_its_own()) as scene:
        yield scene


@pytest.fixture
def stack(scene: Scene) -> RunningStack:
    """The whole embedded stack at work. A test that stops a part waits until it is back."""
    return scene.stack


@pytest.fixture(autouse=True)
def nothing_in_motion(scene: Scene) -> Iterator[None]:
    """A test that failed half-way must not take the others with it."""
    yield
    release = scene.admin.get(at("services", SERVICE))["release_in_motion"]
    if release is not None:
        with suppress(ServerRefused):
            scene.admin.post(at("releases", release, "abort"), {"reason": "the test is over"})
        eventually(lambda: scene.admin.get(at("services", SERVICE))["release_in_motion"] is None, seconds=120)


@pytest.fixture
def traffic(scene: Scene) -> Iterator[Traffic]:
    traffic = Traffic(f"{scene.gateway}/{SERVICE}")
    traffic.start()
    try:
        yield traffic
    finally:
        traffic.stop()
