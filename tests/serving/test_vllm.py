"""The worker and its vLLM child live and die together."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.serving.test_worker_life import is_gone
from tests.serving.workers import RunningWorker, running, wait_until

pytestmark = pytest.mark.stack

COMPLETIONS = "/v1/completions"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return tmp_path / "notes"


def start(
    tmp_path: Path, path: str, notes: Path, environment: dict[str, str] | None = None, **options: Any
) -> Any:
    return running(
        tmp_path / "log",
        {"PATH": path, "FAKE_VLLM_NOTES": str(notes), **(environment or {})},
        engine="vllm",
        model_dir=tmp_path,
        **options,
    )


def noted(notes: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in notes.read_text().splitlines()] if notes.exists() else []


def test_a_machine_without_vllm_says_so_plainly(tmp_path: Path, notes: Path) -> None:
    with start(tmp_path, str(tmp_path / "empty"), notes) as worker:
        wait_until(lambda: worker.health()[1]["state"] == "failed")
        assert "vllm is not on this worker's PATH" in worker.health()[1]["reason"]


def test_the_child_gets_the_versions_settings(tmp_path: Path, path_with_vllm: str, notes: Path) -> None:
    (tmp_path / "slipway.json").write_text(
        json.dumps({"engines": {"vllm": {"max-model-len": 2048, "dtype": "bfloat16"}}})
    )
    with start(tmp_path, path_with_vllm, notes, slots=3, settings={"max_model_len": 4096}) as worker:
        worker.until_ready()
        started = noted(notes)[0]
        assert started["model"] == str(tmp_path)
        assert started["argv"] == ["--max-num-seqs=3", "--max-model-len=4096", "--dtype=bfloat16"]


def test_only_this_user_may_enter_where_the_child_listens(
    tmp_path: Path, path_with_vllm: str, notes: Path
) -> None:
    with start(tmp_path, path_with_vllm, notes, {"TMPDIR": str(tmp_path)}) as worker:
        worker.until_ready()
        (directory,) = tmp_path.glob("slipway-vllm-*")
        assert directory.stat().st_mode & 0o777 == 0o700
        worker.process.send_signal(signal.SIGTERM)
        assert worker.wait() == 0
        assert not directory.exists()


def test_the_worker_is_loading_while_the_child_does(tmp_path: Path, path_with_vllm: str, notes: Path) -> None:
    loaded = tmp_path / "loaded"
    with start(tmp_path, path_with_vllm, notes, {"FAKE_VLLM_LOADS_UNTIL": str(loaded)}) as worker:
        wait_until(lambda: noted(notes))
        assert worker.health()[1]["state"] == "starting"
        loaded.touch()
        worker.until_ready()


def test_a_child_that_exits_while_loading_is_quoted(tmp_path: Path, path_with_vllm: str, notes: Path) -> None:
    with start(tmp_path, path_with_vllm, notes, {"FAKE_VLLM_EXIT": "1"}) as worker:
        wait_until(lambda: worker.health()[1]["state"] == "failed")
        reason = worker.health()[1]["reason"]
        assert reason == "vllm ended with status 1: ValueError: No available memory for the cache blocks."


def test_a_child_that_is_not_ready_in_time_is_ended(tmp_path: Path, path_with_vllm: str, notes: Path) -> None:
    settings = {"load_timeout_seconds": 1}
    with start(
        tmp_path, path_with_vllm, notes, {"FAKE_VLLM_LOAD_SECONDS": "60"}, settings=settings
    ) as worker:
        wait_until(lambda: worker.health()[1]["state"] == "failed")
        assert worker.health()[1]["reason"].startswith("vllm was not ready within 1 s")
        assert is_gone(noted(notes)[0]["pid"])


def test_a_child_that_dies_fails_the_worker(tmp_path: Path, path_with_vllm: str, notes: Path) -> None:
    with start(tmp_path, path_with_vllm, notes, linger_seconds=0.5) as worker:
        worker.until_ready()
        os.kill(noted(notes)[0]["pid"], signal.SIGKILL)
        assert worker.wait() == 1
        assert "failed: vllm ended with status -9" in worker.log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_child_ends_with_the_worker(
    tmp_path: Path, path_with_vllm: str, notes: Path, number: signal.Signals
) -> None:
    with start(tmp_path, path_with_vllm, notes) as worker:
        worker.until_ready()
        child = noted(notes)[0]["pid"]
        worker.process.send_signal(number)
        assert worker.wait() == (0 if number is signal.SIGTERM else -9)
        wait_until(lambda: is_gone(child), seconds=60.0, what="the child's end")


@pytest.fixture
def served(tmp_path: Path, path_with_vllm: str, notes: Path) -> Any:
    with start(tmp_path, path_with_vllm, notes) as worker:
        yield worker.until_ready()


def test_an_error_of_the_child_is_passed_on(served: RunningWorker) -> None:
    answer = served.post(COMPLETIONS, prompt="x", temperature=99)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "temperature must be in [0, 2]"


def test_a_client_that_goes_away_is_gone_for_the_child(served: RunningWorker, notes: Path) -> None:
    body = {"prompt": "x", "max_tokens": 2_000, "stream": True, "user": "fickle"}
    with served.client.stream("POST", f"{served.url}{COMPLETIONS}", json=body) as answer:
        next(answer.iter_lines())
    wait_until(lambda: {"abandoned": "fickle"} in noted(notes))


@pytest.mark.parametrize(("user", "message"), [("break-off", "broke"), ("error", "out of blocks")])
def test_a_stream_that_breaks_ends_with_an_error_and_not_as_if_it_were_done(
    served: RunningWorker, user: str, message: str
) -> None:
    body = {"prompt": "x", "max_tokens": 9, "stream": True, "user": user}
    with served.client.stream("POST", f"{served.url}{COMPLETIONS}", json=body) as answer:
        assert answer.status_code == 200
        lines = [line for line in answer.iter_lines() if line]
    assert message in orjson.loads(lines[-1].removeprefix("data: "))["error"]["message"]
    assert served.metric("slipway_worker_broken_streams_total") == 1


def test_the_childs_metrics_are_shown_with_the_workers(served: RunningWorker) -> None:
    text = served.client.get(f"{served.url}/metrics").text
    assert "vllm:num_requests_running 0.0" in text
    assert "slipway_worker_ready 1.0" in text
