"""Engines of language models in an app."""

import os
import signal
import textwrap
from pathlib import Path
from typing import Any

import httpx2
import orjson
import psutil
import pytest

from slipway import serve
from tests.serving.conftest import VLLM_READY_SECONDS
from tests.serving.runtime.rig import BackgroundCall, pids, service
from tests.serving.test_worker_life import is_gone
from tests.serving.workers import PROJECT, RunningWorker, running, wait_until

pytestmark = pytest.mark.stack

SOURCE = """
    from slipway import serve

    app = serve.App(processes=2)
    llm = serve.llm.start_llm_engine({files!r}, engine={engine!r}, {settings})

    @app.post("/ask")
    def ask(request):
        answer = llm.completions(request.prompt, max_tokens=request.tokens, temperature=0)
        return {{"text": answer["choices"][0]["text"], "used": answer["usage"]["completion_tokens"]}}

    @app.stream("/tell")
    def tell(request):
        message = {{"role": "user", "content": request.prompt}}
        for piece in llm.chat([message], max_tokens=request.tokens, temperature=0, stream=True):
            yield piece["choices"][0]["delta"].get("content", "")

    @app.post("/embed")
    def embed(request):
        return llm.embeddings("words")
"""


def source(model: Path, engine: str, **settings: Any) -> str:
    words = ", ".join(f"{name}={value!r}" for name, value in settings.items())
    return SOURCE.format(files=str(model), engine=engine, settings=words)


def told(worker: RunningWorker, prompt: str, tokens: int) -> str:
    body = {"prompt": prompt, "tokens": tokens}
    with worker.client.stream("POST", f"{worker.url}/tell", json=body) as answer:
        assert answer.status_code == 200, answer.read()
        lines = [line[6:] for line in answer.iter_lines() if line.startswith("data: ")]
    return "".join(orjson.loads(line) if line.startswith('"') else line for line in lines)


def test_handlers_ask_a_transformers_model_that_all_of_them_share(tmp_path: Path, tiny_model: Path) -> None:
    with service(tmp_path / "app", source(tiny_model, "transformers", context_length=128)) as worker:
        first = worker.post("/ask", prompt="Hello", tokens=6).json()
        assert first["used"] == 6
        assert worker.post("/ask", prompt="Hello", tokens=6).json() == first
        assert told(worker, "Hello", 6)
        assert worker.post("/embed").status_code == 404
        assert sum(name.startswith("llm") for name in pids(worker)) == 1
        long = worker.post("/ask", prompt="x" * 500, tokens=6)
        assert (long.status_code, long.json()["title"]) == (400, "LLM engine refused")


def test_an_engine_that_is_killed_is_back_alone_and_requests_meanwhile_say_so(tmp_path: Path) -> None:
    app = source(tmp_path, "echo", slots=2)
    with service(tmp_path / "app", app) as worker:
        assert worker.post("/ask", prompt="again", tokens=1).json()["text"] == "again"
        kept = pids(worker)["llm#0"]
        (engine,) = psutil.Process(kept).children()
        os.kill(engine.pid, signal.SIGKILL)
        wait_until(lambda: worker.post("/ask", prompt="again", tokens=1).status_code == 503)
        wait_until(lambda: worker.post("/ask", prompt="again", tokens=1).status_code == 200)
        wait_until(lambda: pids(worker).get("llm#0", kept) != kept, seconds=30)
        (engine,) = psutil.Process(pids(worker)["llm#0"]).children()
        worker.process.kill()
        worker.wait()
        wait_until(lambda: is_gone(engine.pid), seconds=30, what="the engine's end")


def test_a_client_that_leaves_ends_the_generation(tmp_path: Path) -> None:
    (tmp_path / "slipway.json").write_text('{"engines": {"echo": {"token_seconds": 0.05}}}')
    with service(tmp_path / "app", source(tmp_path, "echo", slots=1, tokens=6_000)) as worker:
        with pytest.raises(httpx2.TimeoutException):
            httpx2.post(f"{worker.url}/ask", json={"prompt": "on and on", "tokens": 6_000}, timeout=1.0)
        # Its answer would have taken 300 s.
        status, answer = BackgroundCall(worker, "/ask", {"prompt": "next", "tokens": 1}).result()
        assert (status, answer["text"]) == (200, "next ")


def test_a_plain_script_uses_one_too(tmp_path: Path) -> None:
    llm = serve.llm.start_llm_engine(tmp_path, engine="echo")
    try:
        assert llm.completions("hello there")["choices"][0]["text"] == "hello there"
        pieces = list(llm.completions("hello there", stream=True))
        assert "".join(piece["choices"][0]["text"] for piece in pieces) == "hello there"
        with pytest.raises(serve.Problem, match="empty"):
            llm.completions("")
    finally:
        llm.close()


@pytest.mark.parametrize(("options", "words"), [({"engine": "vlm"}, "no engine 'vlm'"), ({}, "no directory")])
def test_what_cannot_be_meant_is_refused(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(serve.AppError, match=words):
        serve.llm.start_llm_engine(tmp_path if options else tmp_path / "none", **options)


@pytest.mark.slow
@pytest.mark.timeout(1_500)
def test_handlers_ask_vllm(tmp_path: Path, model_for_vllm: Path, environments: Path) -> None:
    directory = tmp_path / "app"
    directory.mkdir()
    app = source(model_for_vllm, "vllm", device="cpu", prefix_caching=True, max_sequences=2)
    (directory / "app.py").write_text(textwrap.dedent(app))
    with running(
        directory / "log",
        {"VLLM_CPU_KVCACHE_SPACE": "1", "PYTHONPATH": str(PROJECT)},
        engine="app",
        model_dir=directory,
        environments=environments,
    ) as worker:
        worker.until_ready(VLLM_READY_SECONDS)
        assert worker.post("/ask", prompt="Hello", tokens=6).json()["used"] == 6
        assert told(worker, "Hello", 6)
