"""A web process with rows of a fleet, for the measurements of this package."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psutil

from tests.prepared import prepare_home
from tests.valkey import ValkeyServer

PROJECT = Path(__file__).resolve().parents[2]
MACHINES_OF_A_RACK = 16


@dataclass(frozen=True, slots=True)
class ServedFleet:
    """A web process and who may talk to it."""

    web: psutil.Process
    port: int
    agents: list[str]
    """Tokens, by machine."""
    reporter: str
    """A token that may report all workers."""
    reader: str
    """A token that may read everything."""
    cookie: tuple[str, str]
    """Name and value, of an administrator's session."""

    def cpu_seconds(self) -> float:
        times = self.web.cpu_times()
        return times.user + times.system

    def memory_bytes(self) -> int:
        return int(self.web.memory_info().rss)


@contextmanager
def served_fleet(*, machines: int, workers_per_machine: int) -> Iterator[ServedFleet]:
    with tempfile.TemporaryDirectory(prefix="slipway-perf-") as home:
        valkey = ValkeyServer()
        valkey.start()
        try:
            environ = os.environ | {
                "DJANGO_SETTINGS_MODULE": "controlplane.settings.embedded",
                "SLIPWAY_HOME": home,
                "SLIPWAY_REDIS_URL": valkey.url,
                "SLIPWAY_LOG_LEVEL": "ERROR",
            }
            prepare_home(Path(home))
            made = subprocess.run(
                [sys.executable, "-m", __name__, str(machines), str(workers_per_machine)],
                cwd=PROJECT,
                env=environ,
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            )
            agents, reporter, reader, cookie = json.loads(made.stdout.splitlines()[-1])
            with _web_process(environ) as (web, port):
                yield ServedFleet(web, port, agents, reporter, reader, tuple(cookie))
        finally:
            valkey.remove()


@contextmanager
def _web_process(environ: Mapping[str, str]) -> Iterator[tuple[psutil.Process, int]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "controlplane.asgi:application", "--port", str(port)]
    command += ["--http", "controlplane.connections:BoundedProtocol"]
    command += ["--ws", "controlplane.shared_frames:SharedFrameProtocol"]
    command += ["--no-proxy-headers", "--no-access-log", "--log-level", "error"]
    with subprocess.Popen(command, cwd=PROJECT, env=environ) as process:
        try:
            while True:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                if process.poll() is not None:
                    raise RuntimeError("The web process ended.")
                time.sleep(0.1)
            yield psutil.Process(process.pid), port
        finally:
            process.terminate()


def make_rows(machines: int, workers_per_machine: int) -> tuple[list[str], str, str, tuple[str, str]]:
    """Make a cluster whose machines have agents and workers; return what `ServedFleet` holds of it."""
    import django

    django.setup()
    from django.conf import settings
    from django.test import Client
    from django.utils import timezone

    from accounts import keys
    from accounts.models import ApiToken, Team, User
    from accounts.services.people import create_user
    from accounts.services.tokens import create_token
    from accounts.states import Right, Role
    from clusters.models import AgentToken, Cluster, Deployment, Node, Worker
    from common.actor import Actor
    from models_registry.models import Model, Version

    actor, now = Actor.system("perf"), timezone.now()
    team = Team.objects.create(name="perf")
    version = Version.objects.create(model=Model.objects.create(team=team, name="m"), number=1, name="v1")
    cluster = Cluster.objects.create(name="perf", kind="embedded", team=team)
    deployment = Deployment.objects.create(
        name="chat",
        cluster=cluster,
        team=team,
        service="chat",
        version=version,
        version_label="m:v1",
        engine="echo",
        replicas=machines * workers_per_machine,
        slots=8,
        observed_at=now,
    )
    nodes = Node.objects.bulk_create(
        Node(
            cluster=cluster,
            uid=f"box-{number}",
            seen_at=now,
            name=f"box-{number:04}",
            state="ready",
            group=("online", "offline")[number % 5 == 0],
            labels={"topology.kubernetes.io/rack": f"rack-{number // MACHINES_OF_A_RACK:03}"},
        )
        for number in range(machines)
    )
    Worker.objects.bulk_create(
        Worker(
            deployment=deployment,
            node=nodes[number // workers_per_machine],
            name=f"chat-{number}",
            uid=f"chat-{number}",
            pid=1,
            state="ready",
            state_since=now,
        )
        for number in range(machines * workers_per_machine)
    )
    owner = create_user(actor=actor, username="agents", team=team, role=Role.OPERATOR)
    reporter, reader = (
        create_token(actor=actor, owner=owner, name=right, scopes=[right]).text
        for right in (Right.FLEET_REPORT, Right.READ)
    )
    # By the service each takes a link of the audit chain: minutes for thousands.
    own = [keys.new_key() for _ in nodes]
    tokens = ApiToken.objects.bulk_create(
        ApiToken(
            owner=owner,
            name=node.name,
            prefix=key.prefix,
            secret_hash=key.hash,
            scopes=[Right.FLEET_REPORT],
            created_at=now,
            expires_at=now + timedelta(days=1),
        )
        for node, key in zip(nodes, own, strict=True)
    )
    AgentToken.objects.bulk_create(
        AgentToken(cluster=cluster, node_uid=node.uid, token=token)
        for node, token in zip(nodes, tokens, strict=True)
    )
    root = User.objects.create_superuser("root", password=None)
    client = Client()
    client.force_login(root, backend=settings.AUTHENTICATION_BACKENDS[-1])
    name = settings.SESSION_COOKIE_NAME
    return [key.text for key in own], reporter, reader, (name, client.cookies[name].value)


if __name__ == "__main__":
    print(json.dumps(make_rows(*map(int, sys.argv[1:]))))
