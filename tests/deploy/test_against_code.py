"""What `deploy/` says of the code is so: commands, ports, settings, probes, images."""

import ast
import os
import re
import socket
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from django.test import Client
from typer.exceptions import TyperException

from clusters.backends.kubernetes.manifests import DEPLOYMENT
from clusters.backends.kubernetes.relay import relay_objects
from clusters.backends.kubernetes.settings import KubernetesSettings
from controlplane.environment import PROJECT, Environment, variable
from controlplane.installed import APPS, NOT_APPS
from controlplane.server.__main__ import app
from controlplane.server.health_port import open_health_port
from tests.deploy.kustomize import Document, containers, pod_spec, render

SERVER: Any = typer.main.get_command(app)
FIELDS = {variable(name): name for name in Environment.model_fields}
IN_THE_SECRET = {
    "SLIPWAY_DATABASE_URL": "postgresql://slipway@db/slipway",
    "SLIPWAY_REDIS_URL": "redis://redis/0",
    "SLIPWAY_SECRET_KEY": "s" * 40,
    "SLIPWAY_AUDIT_KEY": "a" * 40,
}
ROLES = {"slipway-web": "web", "slipway-worker": "worker", "slipway-sweeper": "sweeper"}
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


def main_containers(documents: list[Document]) -> Iterator[tuple[str, Document]]:
    for document in documents:
        if (spec := pod_spec(document)) is not None:
            for container in containers(spec):
                yield document["metadata"]["name"], container


def parsed(arguments: list[str]) -> Any:
    """Parse as the command does. Raises KeyError, TyperException for no command or no option of it."""
    name, *rest = arguments
    return SERVER.commands[name].make_context(name, rest)


def test_every_container_runs_a_command_of_slipway_server(control_plane: list[Document]) -> None:
    seen = {}
    for name, container in main_containers(control_plane):
        assert "command" not in container
        seen[f"{name}/{container['name']}"] = parsed(container["args"]).info_name
    assert seen == {
        "slipway-prepare/prepare": "prepare",
        "slipway-web/files": "prepare",
        "slipway-web/web": "web",
        "slipway-worker/worker": "worker",
        "slipway-sweeper/sweeper": "sweeper",
    }
    with pytest.raises(TyperException):
        parsed(["worker", "--health-prot", "1"])


def test_settings_are_settings_that_the_process_takes(control_plane: list[Document]) -> None:
    (settings,) = (one["data"] for one in control_plane if one["kind"] == "ConfigMap")
    assert settings.keys() <= FIELDS.keys()
    secret = {name for name in settings if "KEY" in name or "PASSWORD" in name or "URL" in name}
    assert secret <= {"SLIPWAY_PUBLIC_URL"}
    read = Environment(**{FIELDS[name]: value for name, value in (settings | IN_THE_SECRET).items()})
    assert str(read.home) == settings["SLIPWAY_HOME"]
    # Models in the home of one pod are nobody else's: roles would not start.
    assert read.store


def test_ports_are_those_that_the_commands_listen_on(control_plane: list[Document]) -> None:
    (settings,) = (one["data"] for one in control_plane if one["kind"] == "ConfigMap")
    listens = {}
    for name, container in main_containers(control_plane):
        if ROLES.get(name) != container["name"]:
            continue
        (port,) = container["ports"]
        options = parsed(container["args"]).params
        listens[name] = options.get("health_port") or int(settings["SLIPWAY_PORT"])
        assert port["containerPort"] == listens[name]
        assert {container[probe]["httpGet"]["port"] for probe in PROBES} == {port["name"]}
    assert listens.keys() == ROLES.keys()
    policies = {
        one["metadata"]["name"]: one["spec"] for one in control_plane if one["kind"] == "NetworkPolicy"
    }
    scraped = {one["port"] for one in policies["metrics"]["ingress"][0]["ports"]}
    assert scraped == set(listens.values())


@pytest.fixture(scope="module")
def health_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    open_health_port("worker", port)
    return port


@pytest.mark.django_db
def test_probes_ask_for_what_the_roles_answer(
    control_plane: list[Document], client: Client, health_port: int
) -> None:
    asked = {
        (container["name"], container[probe]["httpGet"]["path"])
        for name, container in main_containers(control_plane)
        if name in ROLES and container["name"] == ROLES[name]
        for probe in PROBES
    }
    assert {path for _, path in asked} == {"/healthz", "/readyz"}
    for role, path in asked:
        if role == "web":
            # By its address, as a kubelet does, and without TLS.
            assert client.get(path, headers={"host": "10.244.1.7:8000"}).status_code in (200, 503)
        elif path == "/healthz":
            with urllib.request.urlopen(f"http://127.0.0.1:{health_port}{path}", timeout=10) as answer:
                assert answer.status == 200
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://127.0.0.1:{health_port}/health", timeout=10)


def test_a_role_has_the_time_to_end_that_it_takes(control_plane: list[Document]) -> None:
    from controlplane.settings.base import CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT

    for name, one in ((one["metadata"]["name"], one) for one in control_plane if one["kind"] == "Deployment"):
        spec = pod_spec(one)
        assert spec is not None
        assert spec["terminationGracePeriodSeconds"] >= CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT + 10, name


CONTAINERFILES = sorted((PROJECT / "deploy").glob("*/Containerfile"))


@pytest.mark.parametrize("file", CONTAINERFILES, ids=lambda file: file.parent.name)
def test_an_image_is_built_of_what_is_there_and_runs_as_nobody(file: Path) -> None:
    text = file.read_text()
    lines = re.sub(
        r"\\\n", " ", "\n".join(x for x in text.splitlines() if not x.startswith("#"))
    ).splitlines()
    for line in lines:
        if line.startswith("COPY ") and "--from" not in line:
            for source in line.split()[1:-1]:
                assert source == "." or (PROJECT / source).exists(), line
                assert source == "." or not _is_ignored(source), line
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert users
    assert all(user.partition(":")[0] == "10001" for user in users)
    assert "-c constraints.txt" in text
    bases = dict(re.findall(r"^ARG (\w+_IMAGE)=(\S+)$", text, re.MULTILINE))
    assert bases
    for base in bases.values():
        assert re.fullmatch(r"[a-z]+:\d[\w.-]*", base), "a tag that says which, and no host of a registry"
    assert {line.split()[1] for line in lines if line.startswith("FROM ")} == {
        f"${{{name}}}" for name in bases
    }


def _is_ignored(source: str) -> bool:
    """Match against .dockerignore: the last line that matches decides."""
    ignored = False
    places = [source, *map(str, Path(source).parents[:-1])]
    for line in (PROJECT / ".dockerignore").read_text().splitlines():
        if line[:1] != "#" and any(fnmatch(place, line.removeprefix("!")) for place in places):
            ignored = line[:1] != "!"
    return ignored


def test_the_control_planes_image_has_every_package_and_what_lies_beside_them() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    needed = {*APPS, *NOT_APPS, "templates", "static", "locale"}
    needed |= {"manage.py", "pyproject.toml", "constraints.txt", "README.md"}
    assert {name for name in needed if _is_ignored(name)} == set()
    assert all(_is_ignored(name) for name in ("var", "tests", ".env", ".git", "node_modules"))
    text = (PROJECT / "deploy/control-plane/Containerfile").read_text()
    extras = re.search(r"^ARG EXTRAS=(\S+)$", text, re.MULTILINE)
    assert extras
    assert set(extras[1].split(",")) <= project["project"]["optional-dependencies"].keys()


@pytest.mark.process
def test_the_workers_image_has_all_that_it_runs_and_no_django(tmp_path: Path) -> None:
    text = (PROJECT / "deploy/worker/Containerfile").read_text()
    copied = re.findall(r"^COPY (\w+) (\w+)$", text, re.MULTILINE)
    for source, target in copied:
        (tmp_path / target).symlink_to(PROJECT / source)
    code = (
        "import sys; sys.modules['django'] = None; "
        "import serving.worker, serving.node_agent, serving.fetch.__main__, serving.engines.transformers, "
        "benchmarks.load.__main__, optimization.programs.in_cluster"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path), "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.process
def test_the_workers_requirements_are_those_of_the_project() -> None:
    script, project = PROJECT / "deploy/worker/requirements.py", PROJECT / "pyproject.toml"
    known = tomllib.loads(project.read_text())["project"]["optional-dependencies"]

    def printed(*extras: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(script), str(project), *extras]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert printed("torch", "gpu").stdout.splitlines() == [*known["torch"], *known["gpu"]]
    refused = printed("tortch")
    assert refused.returncode == 1
    assert "There is no extra tortch" in refused.stderr


@pytest.mark.process
def test_the_agent_of_a_machine_is_started_with_its_own_name_and_token(tmp_path: Path) -> None:
    documents = list(yaml.safe_load_all((PROJECT / "deploy/agents/node-agent.yaml").read_text()))
    (agent,) = (container for _, container in main_containers(documents))
    (script,) = agent["args"]
    program = tmp_path / "bin" / "python"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    agents = tmp_path / "agents"
    agents.mkdir()
    environ = {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "NODE_NAME": "gpu-1",
        "URL": "https://slipway.test",
    }

    def run() -> subprocess.CompletedProcess[str]:
        command = [*agent["command"], script.replace("/agents/", f"{agents}/")]
        return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)

    refused = run()
    assert refused.returncode == 1
    assert "slipway node agent-token gpu-1" in refused.stderr
    (agents / "gpu-1.uid").write_text("11-22")
    (agents / "gpu-1.token").write_text("secret")
    words = run().stdout.splitlines()
    assert words[:4] == ["-m", "serving.node_agent", "--node", "11-22"]
    assert "secret" not in words
    assert "--drill" not in words
    environ["DRILLS"] = "yes"
    words = run().stdout.splitlines()
    assert words[words.index("--drill") + 1] == "/spool/drill"
    assert words[words.index("--url") + 1] == "https://slipway.test/api/v1/node-reports/"
    known = {
        node.args[0].value
        for node in ast.walk(ast.parse((PROJECT / "serving/node_agent.py").read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument"
        if isinstance(node.args[0], ast.Constant)
    }
    assert {word for word in words if word.startswith("--")} <= known


def test_the_network_policy_of_deploy_is_about_the_relay_that_slipway_makes() -> None:
    (document,) = render(PROJECT / "deploy/agents/relay")
    settings = KubernetesSettings(
        report_url="https://slipway.example.org", relay_image=f"w@sha256:{'0' * 64}"
    )
    deployment = relay_objects(settings, "token")[-1]
    template, policy = deployment["spec"]["template"], document["spec"]
    assert policy["podSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    (heard,) = policy["ingress"][0]["from"]
    assert heard["podSelector"]["matchExpressions"][0]["key"] == DEPLOYMENT
    (port,) = template["spec"]["containers"][0]["ports"]
    assert policy["ingress"][0]["ports"][0]["port"] == port["name"]
