"""A version's own code runs in an environment of its lock file, as another user, with limits."""

import base64
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from serving.engines.base import EngineError
from serving.environments import IN_USE, remove_unused
from serving.runtime.packages import python_for
from serving.worker_command import WORKER_ENVIRONMENT
from tests.serving.runtime.rig import descendants
from tests.serving.workers import PROJECT, RunningWorker, command

pytestmark = pytest.mark.process

APP = """
import os, resource
import greeter
from pydantic import BaseModel
from slipway import serve

app = serve.App(processes=2)

class Namer(serve.GpuModel):
    def name(self):
        return greeter.WORDS, os.getuid()

@app.get("/who")
def who():
    return {
        "greeting": greeter.WORDS,
        "model": serve.get(Namer).run("name"),
        "uid": os.getuid(),
        "groups": os.getgroups(),
        "files": resource.getrlimit(resource.RLIMIT_NOFILE),
        "data": resource.getrlimit(resource.RLIMIT_DATA),
        "privileges": open("/proc/self/status").read().partition("NoNewPrivs:")[2].split()[0],
    }
"""


def wheel(directory: Path, words: str) -> Path:
    """A package `greeter` that no index has."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "greeter-1.0-py3-none-any.whl"
    files = {
        "greeter.py": f"WORDS = {words!r}\ndef greet(): print(WORDS)\n",
        "greeter-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: greeter\nVersion: 1.0\n",
        "greeter-1.0.dist-info/entry_points.txt": "[console_scripts]\ngreet = greeter:greet\n",
        "greeter-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = []
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            rows.append(f"{name},sha256={digest},{len(text)}")
        record = "greeter-1.0.dist-info/RECORD"
        archive.writestr(record, "\n".join([*rows, f"{record},,"]) + "\n")
    return path


def locked(directory: Path, path: Path, *, name: str = "requirements.lock") -> Path:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    text = {
        "requirements.lock": f"greeter==1.0 --hash=sha256:{digest}\n",
        "pylock.toml": '[[packages]]\nname = "greeter"\nversion = "1.0"\n'
        f'[[packages.wheels]]\nname = "{path.name}"\nhashes = {{sha256 = "{digest}"}}\n',
    }
    directory.mkdir(parents=True, exist_ok=True)
    (directory / name).write_text(text[name])
    return directory


def greeting(python: str) -> str:
    code = "import greeter, pydantic, serving.runtime.child; print(greeter.WORDS)"
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("UV_OFFLINE", "1")
    return tmp_path / "wheels"


def test_one_environment_is_made_for_each_lock_and_goes_when_nobody_uses_it(
    wheels: Path, tmp_path: Path
) -> None:
    root = tmp_path / "environments"
    one = locked(tmp_path / "v1", wheel(wheels, "hello"))
    python = python_for(one, root)
    assert greeting(python) == "hello"
    same = python_for(locked(tmp_path / "v2", wheels / "greeter-1.0-py3-none-any.whl"), root)
    assert same == python
    mark = Path(python).parents[1] / IN_USE
    os.utime(mark, (0, 0))
    remove_unused(root)
    assert Path(python).exists(), "this process holds it"
    code = "import sys, pathlib; from serving.environments import remove_unused; "
    code += "remove_unused(pathlib.Path(sys.argv[1]), kept_seconds=0)"
    unheld = root / "app-0000"
    (unheld / "bin").mkdir(parents=True)
    (unheld / IN_USE).touch()
    time.sleep(0.01)
    subprocess.run([sys.executable, "-c", code, str(root)], check=True)
    assert not unheld.exists()
    assert Path(python).exists()


def test_pylock_and_a_wheel_of_the_version_are_installed(wheels: Path, tmp_path: Path) -> None:
    version = locked(tmp_path / "v1", wheel(wheels, "by pylock"), name="pylock.toml")
    assert greeting(python_for(version, tmp_path / "environments")) == "by pylock"
    other = tmp_path / "v2"
    wheel(other, "by wheel")
    (other / "requirements.lock").write_text("")
    assert greeting(python_for(other, tmp_path / "environments")) == "by wheel"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory of an index of packages: of a directory of wheels uv locks no hashes."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "index"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("UV_DEFAULT_INDEX", f"http://127.0.0.1:{server.server_port}/simple")
        yield tmp_path / "index"
        server.shutdown()


def test_a_project_that_uv_has_locked_is_installed(index: Path, tmp_path: Path) -> None:
    path = wheel(index, "by uv.lock")
    listed = index / "simple" / "greeter" / "index.html"
    listed.parent.mkdir(parents=True)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    listed.write_text(f'<a href="/{path.name}#sha256={digest}">{path.name}</a>')
    version = tmp_path / "v1"
    version.mkdir()
    (version / "pyproject.toml").write_text(
        '[project]\nname = "shop"\nversion = "1"\nrequires-python = ">=3.11"\ndependencies = ["greeter"]\n'
    )
    uv = str(Path(sys.executable).with_name("uv"))
    subprocess.run([uv, "lock", f"--project={version}", f"--python={sys.executable}"], check=True)
    assert greeting(python_for(version, tmp_path / "environments")) == "by uv.lock"


def test_pip_makes_the_environment_where_uv_is_not_installed(
    wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.environments._uv_program", lambda: "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    version = locked(tmp_path / "v1", wheel(wheels, "by pip"))
    python = python_for(version, tmp_path / "environments")
    assert greeting(python) == "by pip"
    said = subprocess.run([Path(python).with_name("greet")], check=True, capture_output=True, text=True)
    assert said.stdout == "by pip\n"  # after its environment was renamed
    wheel(wheels, "another content")
    other = locked(tmp_path / "v2", wheels / "greeter-1.0-py3-none-any.whl")
    wheel(wheels, "yet another")
    with pytest.raises(EngineError, match=r"pip install failed: .*HASH"):
        python_for(other, tmp_path / "environments")
    (other / "requirements.lock").rename(other / "uv.lock")
    with pytest.raises(EngineError, match=r"only uv reads uv[.]lock: pip install uv"):
        python_for(other, tmp_path / "environments")


def test_packages_that_only_have_sources_are_refused(wheels: Path, tmp_path: Path) -> None:
    wheels.mkdir()
    source = wheels / "greeter-1.0.tar.gz"
    with tarfile.open(source, "w:gz") as archive:
        text = b"raise SystemExit('it ran')"
        entry = tarfile.TarInfo("greeter-1.0/setup.py")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))
    version = locked(tmp_path / "v1", source)
    with pytest.raises(EngineError, match=r"cannot be installed: .*(no usable wheels|building from source)"):
        python_for(version, tmp_path / "environments")


def test_what_cannot_be_installed_is_said_in_the_words_of_uv(wheels: Path, tmp_path: Path) -> None:
    path = wheel(wheels, "hello")
    version = locked(tmp_path / "v1", path)
    wheel(wheels, "another content")
    with pytest.raises(EngineError, match=r"requirements.lock cannot be installed: .*[Hh]ash"):
        python_for(version, tmp_path / "environments")
    (version / "requirements.lock").write_text("greeter==1.0\n")
    with pytest.raises(EngineError, match="require-hashes"):
        python_for(version, tmp_path / "environments")
    assert not list((tmp_path / "environments").glob("app-*")), "nothing half made is left"
    assert python_for(tmp_path, None) == sys.executable


@pytest.fixture
def open_place() -> Iterator[Path]:
    """Other users can read what lies there."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


@pytest.mark.skipif(os.geteuid() != 0, reason="Only root may run code as another user.")
def test_code_runs_as_another_user_with_limits_in_its_own_packages(
    wheels: Path, open_place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = next((one for one in ("/usr/bin/python3", sys.executable) if _nobody_runs(one)), None)
    if python is None:
        pytest.skip("No Python here can be run by another user.")
    version = locked(open_place / "version", wheel(wheels, "in its own packages"))
    (version / "app.py").write_text(APP)
    site = next(path for path in sys.path if path.endswith("site-packages"))
    given = command(
        engine="app",
        model_dir=version,
        environments=open_place / "environments",
        settings={"limit_files": 512, "limit_memory_mb": 4_000},
    )
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, **WORKER_ENVIRONMENT, "PYTHONPATH": f"{PROJECT}:{site}", "PATH": path}
    log = open_place / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(given.argv(python), env=environment, stdout=out, stderr=out, cwd="/")
    try:
        worker = RunningWorker(process, log).until_ready()
        told = worker.client.get(f"{worker.url}/who").json()
        nobody = 65_534
        assert told == {
            "greeting": "in its own packages",
            "model": ["in its own packages", nobody],
            "uid": nobody,
            "groups": [],
            "files": [512, 512],
            "data": [4_000 << 20, 4_000 << 20],
            "privileges": "1",
        }
        assert worker.health()[1]["code_runs"] == "as the user nobody"
        below = [pid for pid in descendants(process.pid) if pid != process.pid]
        assert {Path(f"/proc/{pid}").stat().st_uid for pid in below} == {nobody}
    finally:
        process.terminate()
        process.wait(60)


def _nobody_runs(python: str) -> bool:
    asked = f"import sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    try:
        tried = subprocess.run(
            [python, "-c", asked], user="nobody", group="nogroup", extra_groups=[], check=False,
            capture_output=True,
        )  # fmt: skip
    except PermissionError:
        return False
    return tried.returncode == 0


def test_a_worker_that_cannot_change_the_user_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from serving.runtime.isolation import Isolation

    file = tmp_path / "app.py"
    file.touch()
    for named, expected in (
        ("none", "as the worker's own user ("),
        ("no-such-person", "there is no such user"),
        ("nobody", "Permission denied"),
    ):
        monkeypatch.setenv("SLIPWAY_APP_USER", named)
        isolation = Isolation()
        isolation.arrange(sys.executable, file)
        assert isolation.uid is None
        assert expected in isolation.words
