"""The pipelines of `examples/`, run as their systems would run them, against a whole stack."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane.environment import PROJECT
from slipway.client import at
from tests.e2e.conftest import MODEL, SERVICE, Scene, Traffic, write_version

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]
PIPELINES = PROJECT / "examples" / "pipelines"
SCOPES = ["read", "services.write", "freezes.write", "releases.start", "models.write"]


def pipeline(name: str) -> Any:
    return yaml.safe_load((PIPELINES / name).read_text())


def filled(text: str, values: dict[str, str]) -> str:
    """The text with the system's own expressions filled in; one that is not named fails."""
    return re.sub(r"\$?\{\{ ?([\w.]+) ?\}\}", lambda found: values[found[1]], text)


def run(script: str, environ: dict[str, str], directory: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script],
        cwd=directory,
        env={"PATH": path, "HOME": str(directory), **environ},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def token(scene: Scene) -> str:
    return scene._robot("pipelines", role="admin", scopes=SCOPES)


def test_github_actions_shows_and_applies_the_files(scene: Scene, token: str, tmp_path: Path) -> None:
    (tmp_path / "slipway").mkdir()
    freeze = {"starts_at": "2036-12-24T17:00:00Z", "minutes": 60}
    document = {"kind": "freeze", "name": "Holidays", "spec": freeze}
    (tmp_path / "slipway" / "freezes.yaml").write_text(yaml.safe_dump(document))
    job = pipeline("github-actions.yaml")["jobs"]["apply"]
    values = {"vars.SLIPWAY_URL": scene.url, "secrets.SLIPWAY_TOKEN": token, "vars.TEAM": "default"}
    environ = {name: filled(value, values) for name, value in job["env"].items()} | {"GITHUB_SHA": "4f1c8a"}
    shown, applied = (step["run"] for step in job["steps"] if "run" in step)

    said = run(shown, environ, tmp_path)
    assert (said.returncode, "created" in said.stdout) == (0, True), said
    assert scene.admin.get(at("freezes"))["results"] == []
    said = run(applied, environ, tmp_path)
    assert said.returncode == 0, said
    assert [row["name"] for row in scene.admin.get(at("freezes"))["results"]] == ["Holidays"]
    (tmp_path / "slipway" / "freezes.yaml").write_text("---\n")
    said = run(applied, environ, tmp_path)
    assert said.returncode == 0, said
    assert scene.admin.get(at("freezes"))["results"] == []


def test_gitlab_releases_until_a_person_has_to_decide(
    scene: Scene, traffic: Traffic, token: str, tmp_path: Path
) -> None:
    stable = scene.admin.get(at("services", SERVICE))["stable"]
    version = f"{MODEL}:v{2 if stable != f'{MODEL}:v2' else 3}"
    script = "\n".join(pipeline("gitlab-ci.yaml")["release"]["script"])
    environ = {"SLIPWAY_URL": scene.url, "SLIPWAY_TOKEN": token, "SERVICE": SERVICE, "VERSION": version}

    said = run(script, {**environ, "PLAN": "swift", "CI_PIPELINE_ID": "7"}, tmp_path)

    assert said.returncode == 0, said
    release = scene.admin.get(at("services", SERVICE))["release_in_motion"]
    assert scene.admin.get(at("releases", release))["state"] == "waiting_approval"
    # The service has this release in motion, so that another one is refused, and the job fails.
    assert run(script, {**environ, "CI_PIPELINE_ID": "8"}, tmp_path).returncode not in (0, 5)


def test_argo_imports_and_releases(scene: Scene, token: str, tmp_path: Path) -> None:
    source = write_version(scene.stack.home.path / "imports" / MODEL / "argo", seed=11)
    template = pipeline("argo-workflow.yaml")["spec"]["templates"][0]["script"]
    values = {"model": MODEL, "version": "argo", "directory": str(source), "service": SERVICE}
    script = filled(
        template["source"],
        {f"inputs.parameters.{name}": value for name, value in values.items()} | {"workflow.name": "train-7"},
    )

    said = run(script, {"SLIPWAY_URL": scene.url, "SLIPWAY_TOKEN": token}, tmp_path)

    assert said.returncode == 0, said
    release = scene.admin.get(at("services", SERVICE))["release_in_motion"]
    assert scene.admin.get(at("releases", release))["version"] == f"{MODEL}:argo"
