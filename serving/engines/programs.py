"""Where the program of a server engine is: on the PATH, or in an environment of its own."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files

from serving.engines.base import EngineError
from serving.engines.spec import EngineSpec
from serving.environments import EnvironmentNotMade, LockedEnvironment
from serving.worker_command import WorkerCommand

LOCKED_FOR_PYTHON = "3.11"


@dataclass(frozen=True, kw_only=True)
class EngineProgram:
    """Words of a command with fields to fill in, and variables of its environment."""

    command: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    is_for_cpu: bool = False


def find_program(spec: EngineSpec, command: WorkerCommand) -> EngineProgram:
    """The engine's program; makes its environment when that is asked for the first time, which takes minutes.
    Raises EngineError."""
    server = spec.program
    if server is None:
        raise EngineError(f"{spec.name} is no server program")
    if found := shutil.which(server.command[0]):
        return EngineProgram(command=(found, *server.command[1:]))
    if not server.locked_environment or command.device == "cuda" or not command.environments:
        raise EngineError(
            f"{server.command[0]} is not on this worker's PATH: use an image of {spec.name}, or serve this "
            "version with the transformers engine"
        )
    environment = environment_named(server.locked_environment)
    try:
        place = environment.ensure(command.environments)
    except EnvironmentNotMade as error:
        raise EngineError(f"the environment {environment.name} could not be made: {error}") from None
    programs = place / "bin"
    variables = {name: os.environ.get(name, usual) for name, usual in server.locked_variables.items()}
    return EngineProgram(
        command=(str(programs / server.locked_command[0]), *server.locked_command[1:]),
        variables={"PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', '')}", **variables},
        is_for_cpu=True,
    )


def environment_named(name: str) -> LockedEnvironment:
    """Return one of the environments whose lock files stand in `serving.engines.locks`."""
    lock = files("serving.engines").joinpath("locks", f"{name}.txt").read_text()
    return LockedEnvironment(name=name, lock=lock, python=LOCKED_FOR_PYTHON)
