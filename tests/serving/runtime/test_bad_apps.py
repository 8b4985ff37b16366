"""Files that cannot be served: the worker says why, with the line."""

from pathlib import Path

import pytest

from serving.runtime.app import App
from serving.runtime.errors import AppError
from serving.runtime.gpu_model import GpuModel, batched, get
from tests.serving.workers import running, wait_until

GOOD = "from slipway import serve\napp = serve.App(processes=1)\n"


@pytest.mark.process
@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (None, "there is no file"),
        ("from slipway import serve\n", "must have one serve.App at its top level"),
        (f"{GOOD}def broken(:\n", "app.py, line 3: SyntaxError"),
        (f"{GOOD}1 / 0\n", "app.py, line 3: ZeroDivisionError"),
        (
            f"{GOOD}class M(serve.GpuModel):\n    def load(self, files): files['w']\n",
            "app.py, line 4: KeyError",
        ),
        (f"{GOOD}@app.post('/a', warm_up={{}})\ndef a(): raise ValueError\n", "Warm-up failed"),
    ],
)
def test_a_file_that_cannot_be_served_is_explained(tmp_path: Path, source: str | None, reason: str) -> None:
    if source is not None:
        (tmp_path / "app.py").write_text(source)
    with running(tmp_path / "log", engine="app", model_dir=tmp_path, linger_seconds=30.0) as worker:
        failed = wait_until(lambda: (seen := worker.health()[1])["state"] == "failed" and seen, seconds=30)
        assert reason in failed["reason"]


@pytest.mark.parametrize(
    ("mistake", "reason"),
    [
        (lambda: App(processes=0), "from 1 to 512"),
        (lambda: App(abilities="cloth"), "abilities is a list"),
        (lambda: App().post("detect"), "is not a path"),
        (lambda: App().get("/metrics"), "runtime's own"),
        (lambda: App().post("/a", max_byte=1)(print), "max_byte"),
        (lambda: App().stream("/a")(print), "generator"),
        (lambda: batched(max_wait_ms=1, latency_ms=1), "not both"),
        (lambda: batched(max_size=0), "from 1 to 65536"),
        (lambda: App().process("python -m feed"), "list of words"),
        (lambda: get(GpuModel), "serve.in_process"),
    ],
)
def test_mistakes_are_named_where_they_are_made(mistake: object, reason: str) -> None:
    with pytest.raises(AppError, match=reason):
        mistake()  # type: ignore[operator]
