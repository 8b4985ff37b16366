"""How a model worker is started: its command line, its environment, how it ends. Standard library only."""

import argparse
import dataclasses
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Self, get_args, get_type_hints

from serving.engines.registry import WORKER_ENGINES
from serving.fields import ProtocolError, no_constant
from serving.protocol import ABILITY, LABEL, NAME

DEVICES = ("auto", "cpu", "cuda")

JOBS_URL = "SLIPWAY_JOBS_URL"
"""Variable of a worker's environment: the Redis in which jobs of services wait; without it they wait in
their worker."""
GATEWAY_URL = "SLIPWAY_GATEWAY_URL"
"""Variable of the same: where the gateway answers, which tasks of graphs call services through."""
EXIT_DONE, EXIT_FAILED, EXIT_USAGE, EXIT_PORT_TAKEN = 0, 1, 2, 3
"""How a worker ends: see `WorkerCommand`."""

# Nothing that a worker loads may reach for a hub, and a worker that cannot keep its byte code compiles
# transformers anew at every start (14 s instead of 6 s on two cores).
WORKER_ENVIRONMENT: Mapping[str, str] = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_OFFLINE": "1",
    "PYTHONDONTWRITEBYTECODE": "",
    "PYTHONUNBUFFERED": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}


@dataclass(frozen=True, kw_only=True)
class WorkerCommand:
    """The start of one worker. `argv()` builds the command line, `parse()` reads it back.

    The process should be given `WORKER_ENVIRONMENT` on top of its environment. It exits 0 after a drain
    (SIGTERM or SIGINT), 1 when its engine failed, 2 when the command is wrong, 3 when another program has
    its port: the same command on another port may succeed.
    A drain takes at most `settle_seconds + grace_seconds`; a second signal ends it at once.
    """

    model_dir: Annotated[Path, "directory of the version's files, in Hugging Face layout"]
    name: Annotated[str, "name of this worker, unique in the fleet and kept across restarts"]
    deployment: Annotated[str, "id of the deployment that it belongs to"]
    service: Annotated[str, "service that it serves"]
    version_label: Annotated[str, "MODEL:VERSION that it serves"]
    engine: Annotated[str, f"one of {', '.join(WORKER_ENGINES)}"] = "transformers"
    host: Annotated[str, "address to listen on, or unix:/path of a socket"] = "127.0.0.1"
    port: Annotated[int, "port to listen on; 0 takes a free one"] = 0
    address: Annotated[str, "address under which the gateway reaches it; empty: the host"] = ""
    machine: Annotated[str, "name of the machine; empty: the host name"] = ""
    slots: Annotated[int, "requests that are worked on at the same time"] = 4
    queue_limit: Annotated[
        int, "requests that may wait for a slot; more are answered 429 (twice as many where a worker died)"
    ] = 32
    device: Annotated[str, f"one of {', '.join(DEVICES)}"] = "auto"
    settings: Annotated[Mapping[str, Any], "engine settings as a JSON object"] = field(default_factory=dict)
    abilities: Annotated[tuple[str, ...], "comma-separated names of what it can do"] = ("chat", "completions")
    heartbeat_url: Annotated[str, "where heartbeats are POSTed: http://..., unix:/path; empty: nowhere"] = ""
    heartbeat_token_file: Annotated[str, "file with the token that heartbeats are sent with; empty: none"] = (
        ""
    )
    settle_seconds: Annotated[float, "after SIGTERM, how long it still takes new requests"] = 1.0
    grace_seconds: Annotated[float, "after that, how long requests in flight may take"] = 30.0
    nodes: Annotated[int, "machines that it spans"] = 1
    node_rank: Annotated[int, "of a follower: which of them this is, from 1 on"] = 0
    master_address: Annotated[str, "of the machine of the worker itself, where it spans several"] = ""
    environments: Annotated[
        Path | None, "directory for environments of engines that are not on the PATH; none: none are made"
    ] = None
    adapters_file: Annotated[
        Path | None, "JSON file of LoRA adapters to load, followed while it runs; none: the version's alone"
    ] = None
    linger_seconds: Annotated[float, "how long a worker whose engine failed stays to say why"] = 60.0
    exit_with_parent: Annotated[bool, "drain when the parent process dies (Linux)"] = False

    def __post_init__(self) -> None:
        """Raises ProtocolError naming the option that is wrong."""
        for key in ("name", "deployment", "service"):
            if not NAME.fullmatch(getattr(self, key)):
                raise ProtocolError(f"{_flag(key)} must match {NAME.pattern}")
        if not LABEL.fullmatch(self.version_label):
            raise ProtocolError("--version-label must be MODEL:VERSION")
        if self.engine not in WORKER_ENGINES:
            raise ProtocolError(f"--engine must be one of {', '.join(WORKER_ENGINES)}")
        if self.device not in DEVICES:
            raise ProtocolError(f"--device must be one of {', '.join(DEVICES)}")
        for key, low, high in (
            ("port", 0, 65_535),
            ("slots", 1, 4_096),
            ("queue_limit", 0, 100_000),
            ("nodes", 1, 4_096),
            ("node_rank", 0, max(0, self.nodes - 1)),
        ):
            if not low <= getattr(self, key) <= high:
                raise ProtocolError(f"{_flag(key)} must be from {low} to {high}")
        for key in ("settle_seconds", "grace_seconds", "linger_seconds"):
            if not 0 <= getattr(self, key) <= 86_400:
                raise ProtocolError(f"{_flag(key)} must be from 0 to 86400")
        if self.nodes > 1 and not self.master_address:
            raise ProtocolError("--master-address must say where the worker of these --nodes is")
        if not all(ABILITY.fullmatch(ability) for ability in self.abilities):
            raise ProtocolError(f"--abilities must be names that match {ABILITY.pattern}")
        if self.host.startswith("unix:") and self.heartbeat_url:
            raise ProtocolError("--heartbeat-url needs a --host that gateways reach, not a socket's path")
        if self.heartbeat_url and not self.heartbeat_url.startswith(("http://", "https://", "unix:/")):
            raise ProtocolError("--heartbeat-url must start with http://, https:// or unix:/")

    def argv(self, python: str = sys.executable) -> list[str]:
        """The command line; options that have their default are left out."""
        arguments = [python, "-m", "serving.worker"]
        for option in dataclasses.fields(self):
            value = getattr(self, option.name)
            if option.default_factory is not dataclasses.MISSING:
                default: Any = option.default_factory()
            else:
                default = option.default
            if value == default:
                continue
            if isinstance(value, bool):
                arguments.append(_flag(option.name))
            elif isinstance(value, Mapping):
                arguments.append(f"{_flag(option.name)}={json.dumps(dict(value), sort_keys=True)}")
            elif isinstance(value, tuple):
                arguments.append(f"{_flag(option.name)}={','.join(value)}")
            else:
                arguments.append(f"{_flag(option.name)}={value}")
        return arguments

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> Self:
        """The command of `arguments` (without the program). Raises ProtocolError; `--help` exits 0."""
        parser = _Parser(
            prog="python -m serving.worker",
            description="Serves one model version over HTTP.",
            allow_abbrev=False,
        )
        hints = get_type_hints(cls, include_extras=True)
        for option in dataclasses.fields(cls):
            flag, kind, text = _flag(option.name), *get_args(hints[option.name])
            if kind is bool:
                parser.add_argument(flag, action="store_true", help=text)
                continue
            required = option.default is dataclasses.MISSING and option.default_factory is dataclasses.MISSING
            parser.add_argument(
                flag,
                required=required,
                default=argparse.SUPPRESS,
                type=_READERS.get(option.name, kind),
                metavar=option.name.rpartition("_")[2].upper(),
                help=text,
            )
        return cls(**vars(parser.parse_args(arguments)))


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise ProtocolError(f"{message} (see python -m serving.worker --help)")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _settings(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text, parse_constant=no_constant)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError("must be a JSON object")
    return value


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def default_environments() -> Path:
    """Return the place where environments are made on a laptop."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slipway" / "environments"


_READERS: Mapping[str, Any] = {
    "settings": _settings,
    "abilities": _names,
    "environments": Path,
    "adapters_file": Path,
}
