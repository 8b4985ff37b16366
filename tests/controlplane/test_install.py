"""`bin/up` and `bin/test` install what a checkout asks for, once."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.embedded import install


class Installer:
    """The module on a checkout of its own, with pip and npm that only take notes."""

    def __init__(self, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.project = project
        self.ran: list[str] = []
        self.fails = ""
        for name in install.INPUTS:
            (project / name).write_text(name)
        for constant, value in {
            "PROJECT": project,
            "VENV": project / ".venv",
            "PYTHON": project / ".venv" / "bin" / "python",
            "STAMP": project / ".venv" / "slipway-installed.json",
        }.items():
            monkeypatch.setattr(install, constant, value)
        monkeypatch.setattr(install, "make_venv", self._make_venv)
        monkeypatch.setattr(install, "run", self._run)

    def _make_venv(self) -> None:
        install.PYTHON.parent.mkdir(parents=True, exist_ok=True)
        install.PYTHON.touch()

    def _run(self, command: list[str | Path], what: str) -> None:
        self.ran.append(" ".join(str(part) for part in command))
        if what == self.fails:
            raise install.InstallError(f"{what} failed")
        if "ci" in command:
            (self.project / "node_modules").mkdir(exist_ok=True)


@pytest.fixture
def installer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installer:
    return Installer(tmp_path, monkeypatch)


def test_the_first_start_installs_packages_and_node_modules(installer: Installer) -> None:
    assert install.main({"embedded", "torch"}) == 0

    upgrade, pip, npm = installer.ran
    assert upgrade.endswith("-c constraints.txt --upgrade pip")
    assert pip.endswith("-c constraints.txt -e .[embedded,torch]")
    assert " ci --ignore-scripts" in npm


def test_a_second_start_installs_nothing(installer: Installer) -> None:
    install.main({"embedded", "torch"})
    installer.ran.clear()

    assert install.main({"embedded", "torch"}) == 0
    assert install.main({"embedded"}) == 0

    assert installer.ran == []


def test_more_extras_are_added_to_those_that_are_there(installer: Installer) -> None:
    install.main({"embedded", "torch"})
    installer.ran.clear()

    install.main({"test"})

    assert installer.ran[1].endswith(".[embedded,test,torch]")
    assert json.loads(install.STAMP.read_text())["extras"] == ["embedded", "test", "torch"]


@pytest.mark.parametrize("name", install.INPUTS)
def test_a_change_of_what_is_asked_for_installs_again(installer: Installer, name: str) -> None:
    install.main({"embedded"})
    installer.ran.clear()
    (installer.project / name).write_text("changed")

    install.main({"embedded"})

    assert len(installer.ran) == 3


def test_node_modules_that_are_gone_are_installed_again(installer: Installer) -> None:
    install.main({"embedded"})
    (installer.project / "node_modules").rmdir()
    installer.ran.clear()

    install.main({"embedded"})

    assert len(installer.ran) == 3


def test_an_installation_that_failed_is_tried_again(
    installer: Installer, capsys: pytest.CaptureFixture[str]
) -> None:
    installer.fails = "installing the node modules"

    assert install.main({"embedded"}) == 1
    assert "slipway: installing the node modules failed" in capsys.readouterr().err

    installer.fails = ""
    installer.ran.clear()
    assert install.main({"embedded"}) == 0
    assert len(installer.ran) == 3


def test_the_control_plane_starts_without_what_only_some_installations_need() -> None:
    """All that a web, a worker, a sweeper and their commands import at their start."""
    program = """
import sys
for name in ("kubernetes", "boto3", "opentelemetry", "torch", "transformers", "vllm", "pynvml", "supervisor"):
    sys.modules[name] = None
import django
django.setup()
import controlplane.asgi, controlplane.celery, controlplane.urls
import controlplane.embedded.__main__, controlplane.sample.place
from django.core.management import get_commands, load_command_class
for name, app in get_commands().items():
    if not app.startswith("django."):
        load_command_class(app, name)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
