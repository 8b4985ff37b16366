"""The sample's Kubernetes cluster: a fake API server whose pods are processes of this machine, and the
gateway that leads to them.

Once a home has had it, every `bin/up` of that home runs it: a cluster of its fleet would be away otherwise.
What it runs it forgets when it ends; its address and its token stay, and the control plane puts back what
should be there.
"""

import sys
from functools import partial
from pathlib import Path

from clusters.backends.supervisor_rpc import SupervisedProgram
from controlplane.embedded.home import Home
from controlplane.environment import PROJECT, Environment
from kube.fake.machine import uid_of

CLUSTER = "sample"
"""Its name in the fleet."""
NAMESPACE = "slipway"
CLUSTER_NAME, GATEWAY_NAME = "sample-cluster", "sample-gateway"
AGENT_NAMES = "sample-agent-"
DRILLS = "disk/var/lib/slipway/agent/drill"
"""Below a machine's directory: where Jobs of drills write, see gpu_health/drills/orders.py."""
PORTS = ("sample_cluster_port", "sample_gateway_port", "sample_gateway_admin_port")
MACHINES, CPUS, GIB, GPUS = 3, 16, 64, 4
PRIORITY = 300
"""Its pods stop before the gateways, as model workers do."""


def directory(home: Home) -> Path:
    """Return the directory of its machines' disks."""
    return home.path / "sample-cluster"


def kubeconfig(home: Path) -> Path:
    return home / "sample-cluster" / "kubeconfig"


def agent_tokens(home: Path) -> dict[str, Path]:
    """Return the file with the token of each machine's agent, by the machine's uid."""
    own = home / "sample-cluster"
    return {uid_of(own / f"fake-{number}"): own / f"fake-{number}.token" for number in range(MACHINES)}


def is_wanted(home: Home) -> bool:
    return directory(home).is_dir()


def want(home: Home) -> None:
    """Want the sample cluster from now on. Raises OSError."""
    directory(home).mkdir(parents=True, exist_ok=True, mode=0o700)


def programs(env: Environment, home: Home) -> list[SupervisedProgram]:
    """The API server with its machines, the Envoy of its Gateway, and an agent for each machine."""
    part = partial(SupervisedProgram, directory=PROJECT, priority=PRIORITY)
    place, python = str(directory(home)), sys.executable
    clients, admin = str(env.sample_gateway_port), str(env.sample_gateway_admin_port)
    size = ("--machines", MACHINES, "--cpus", CPUS, "--gib", GIB, "--gpus", GPUS)
    return [
        part(
            name=CLUSTER_NAME,
            command=(
                *(python, "-m", "kube.fake", place, "--port", str(env.sample_cluster_port)),
                *("--namespace", NAMESPACE, "--gateway", clients, admin),
                *map(str, size),
            ),
            log=home.logs / f"{CLUSTER_NAME}.log",
            healthy_after_seconds=2,
            stop_within_seconds=12,
        ),
        part(
            name=GATEWAY_NAME,
            command=(
                *(python, "-m", "kube.fake.gateway", place, "--bind", env.bind),
                *("--port", clients, "--admin-port", admin),
            ),
            log=home.logs / f"{GATEWAY_NAME}.log",
            stop_within_seconds=5,
        ),
        *_agents(env, home),
    ]


def _agents(env: Environment, home: Home) -> list[SupervisedProgram]:
    """Their machines are those that drills play. They wait for their tokens, which the sample asks for."""
    found = []
    for number, (uid, token) in enumerate(agent_tokens(home.path).items()):
        name, machine = f"{AGENT_NAMES}{number}", directory(home) / f"fake-{number}"
        consoles = env.report_url or (env.local_url(env.port),)
        found.append(
            SupervisedProgram(
                name=name,
                command=(
                    *(sys.executable, "-m", "serving.node_agent", "--node", uid, "--played"),
                    *("--socket", str(home.run / f"{name}.sock"), "--token-file", str(token)),
                    *("--spool", str(machine.with_suffix(".readings")), "--drill", str(machine / DRILLS)),
                    *(word for url in consoles for word in ("--url", f"{url}/api/v1/node-reports/")),
                ),
                directory=PROJECT,
                log=home.logs / f"{name}.log",
                priority=PRIORITY,
                healthy_after_seconds=2,
                stop_within_seconds=5,
            )
        )
    return found
