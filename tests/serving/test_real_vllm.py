"""vLLM itself on the CPU, in its environment; tests of every engine are in test_engine_contract."""

import json
import os
import shutil
import signal
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.serving.conftest import running_vllm
from tests.serving.test_worker_life import is_gone
from tests.serving.tiny_model import write_tiny_adapter
from tests.serving.workers import RunningWorker, wait_until

pytestmark = [pytest.mark.stack, pytest.mark.slow, pytest.mark.timeout(1_500)]

COMPLETIONS = "/v1/completions"
ASKED: dict[str, Any] = {"prompt": "Hello", "max_tokens": 12, "temperature": 0}


@pytest.fixture
def worker(tmp_path: Path, model_for_vllm: Path, environments: Path) -> Any:
    model = tmp_path / "model"
    shutil.copytree(model_for_vllm, model)
    write_tiny_adapter(model / "adapters" / "pirate", head_dim=32)
    with running_vllm(tmp_path / "log", model, environments, linger_seconds=0.5) as worker:
        yield worker


def text(worker: RunningWorker, **body: Any) -> str:
    answer = worker.post(COMPLETIONS, **(ASKED | body))
    assert answer.status_code == 200, answer.text
    return str(answer.json()["choices"][0]["text"])


def tree(worker: RunningWorker) -> list[int]:
    """The processes of vLLM, the one that the worker started first."""
    return [child.pid for child in psutil.Process(worker.process.pid).children(recursive=True)]


def test_adapters_come_and_go_live_and_a_drain_finishes_open_streams(worker: RunningWorker) -> None:
    alone = text(worker)
    assert text(worker, model="pirate") != alone
    adapter = f"{worker.url}/adapters/pirate"
    assert worker.client.delete(adapter).json() == {"adapters": []}
    assert worker.post(COMPLETIONS, **ASKED, model="pirate").status_code == 404
    assert worker.client.put(adapter).json() == {"adapters": ["pirate"]}
    assert text(worker, model="pirate") != alone
    assert worker.client.put(f"{worker.url}/adapters/unheard").status_code == 404

    with worker.client.stream(
        "POST", f"{worker.url}/v1/responses", json={"input": "Hello", "max_output_tokens": 4, "stream": True}
    ) as answer:
        kinds = [line[7:] for line in answer.iter_lines() if line.startswith("event: ")]
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    assert worker.post("/v1/responses", input="Hello", max_output_tokens=4).json()["output"]
    assert worker.post("/v1/embeddings", input="Hello").status_code == 404  # it has no such task

    processes, lines = tree(worker), []
    begun = threading.Event()

    def read() -> None:
        body = json.dumps({**ASKED, "max_tokens": 400, "stream": True, "ignore_eos": True})
        with worker.client.stream("POST", f"{worker.url}{COMPLETIONS}", content=body) as answer:
            for line in answer.iter_lines():
                lines.append(line)
                begun.set()

    reader = threading.Thread(target=read)
    reader.start()
    assert begun.wait(60)
    assert worker.metric("slipway_worker_engine_requests_running") == 1
    worker.process.send_signal(signal.SIGTERM)
    assert worker.wait() == 0
    reader.join(60)
    assert [line for line in lines if line][-1] == "data: [DONE]"
    wait_until(lambda: all(map(is_gone, processes)), seconds=30, what="vLLM's end")


@pytest.mark.parametrize("killed", ["the worker", "the server", "a process that the server started"])
def test_kill_9_of_any_process_ends_all_of_them(worker: RunningWorker, killed: str) -> None:
    processes = tree(worker)
    assert len(processes) > 1
    victim = {"the worker": worker.process.pid, "the server": processes[0]}.get(killed, processes[-1])
    os.kill(victim, signal.SIGKILL)
    assert worker.wait() == (-signal.SIGKILL if killed == "the worker" else 1)
    wait_until(lambda: all(map(is_gone, processes)), seconds=60, what="the end of all")
