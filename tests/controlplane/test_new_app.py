"""An app that `manage.py new_app` makes passes the checks and tests as it is."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.environment import PROJECT

pytestmark = [pytest.mark.process, pytest.mark.any_database, pytest.mark.timeout(600)]
APP, NOUN = "load_tests", "load_test"
MOST_LINES = 300
LEFT_OUT = shutil.ignore_patterns(
    "__pycache__", ".*_cache", "*.egg-info", "node_modules", "var", ".git", ".venv"
)
NAMED_ELSEWHERE = (
    "tests/accounts/test_declared_rights.py",
    "tests/accounts/test_rights_matrix.py",
    "tests/api/test_examples.py",
    "tests/console/test_places.py",
    "tests/controlplane/test_manifests.py",
    "tests/slipway/test_reference.py",
)
"""Tests that walk over all apps."""


class Project:
    """A copy of this project, whose commands see nothing of the original."""

    def __init__(self, place: Path) -> None:
        self.place = place
        shutil.copytree(PROJECT, place, ignore=LEFT_OUT)
        (place / "node_modules").symlink_to(PROJECT / "node_modules")

    def run(self, *command: str) -> None:
        """Runs Python there. Fails with what it says when it does."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
        home = {"SLIPWAY_HOME": str(self.place.parent / "home"), "PYTHONPATH": str(self.place)}
        done = subprocess.run(
            [sys.executable, *command],
            cwd=self.place,
            env=kept | home | {"DJANGO_SETTINGS_MODULE": "controlplane.settings.test"},
            capture_output=True,
            text=True,
            timeout=250,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"

    def lines_of_code(self) -> int:
        """Written for the app; its migration is generated."""
        files = [*(self.place / APP).rglob("*.py"), *(self.place / "tests" / APP).rglob("*.py")]
        files += [self.place / f"slipway/cli/nouns/{NOUN}.py"]
        files += [self.place / f"tests/accounts/rights_matrix/{APP}.py"]
        return sum(len(file.read_text().splitlines()) for file in files if file.parent.name != "migrations")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with a new app whose rows the kernel advances."""
    made = Project(tmp_path_factory.mktemp("copy") / "project")
    made.run("manage.py", "new_app", APP, "--chinese", "负载测试", "--reconciled")
    return made


def test_an_app_with_all_that_people_see_of_it_is_small(project: Project) -> None:
    assert 200 < project.lines_of_code() < MOST_LINES


@pytest.mark.slow
def test_a_new_app_passes_the_checks(project: Project) -> None:
    project.run("-m", "ruff", "check", ".")
    project.run("-m", "ruff", "format", "--check", ".")
    project.run("-c", "from importlinter.cli import lint_imports_command as lint; lint()")
    project.run("-m", "tests.written_from_code")
    project.run("-m", "tests.texts", "--check")


@pytest.mark.slow
def test_a_new_app_passes_its_test_and_those_that_walk_over_all_apps(project: Project) -> None:
    chosen = f"{APP} or {APP.replace('_', '-')} or {NOUN} or not test_rights_matrix"
    tests = (f"tests/{APP}", *NAMED_ELSEWHERE)
    project.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", chosen, *tests)


@pytest.mark.slow
def test_new_apps_of_both_kinds_pass_the_type_checker(project: Project) -> None:
    project.run("manage.py", "new_app", "probes", "--chinese", "探测")
    project.run("-m", "mypy", ".")
