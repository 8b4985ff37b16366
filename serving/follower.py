"""`python -m serving.follower`: the part of a worker that stands on another machine than the worker itself.

It takes the worker's own command line, with `--node-rank` of its machine, and becomes a `vllm serve` without
an API (`--headless`) that joins the worker's at `--master-address`. It ends when that ends; whoever runs both
starts them anew together.
"""

import os
import shutil
import sys
from collections.abc import Sequence

from serving import logs
from serving.engines.factory import make_engine
from serving.engines.programs import EngineProgram
from serving.engines.registry import ENGINES
from serving.engines.server import ServerEngine
from serving.fields import ProtocolError
from serving.settings import SettingsError, VersionSettings
from serving.worker_command import EXIT_FAILED, EXIT_USAGE, WorkerCommand


def argv_of(command: WorkerCommand, program: str) -> list[str]:
    """The command line that it becomes. Raises SettingsError, ProtocolError."""
    if command.nodes < 2 or not command.node_rank:
        raise ProtocolError("--nodes and --node-rank must say which machine of how many this is, from 1 on")
    spec = ENGINES[command.engine]
    engine = make_engine(command, VersionSettings.beside(command.model_dir))
    if not isinstance(engine, ServerEngine) or spec.program is None or not spec.spans_machines:
        able = ", ".join(name for name, known in ENGINES.items() if known.spans_machines)
        raise ProtocolError(f"the engine {command.engine} cannot span machines: only {able} can")
    return engine.argv(EngineProgram(command=(program, *spec.program.command[1:])))


def main(arguments: Sequence[str]) -> int:
    """The exit status of one that cannot begin; any other never returns."""
    logs.set_up("follower")
    program = shutil.which("vllm")
    try:
        argv = argv_of(WorkerCommand.parse(arguments), program or "vllm")
    except (ProtocolError, SettingsError) as error:
        sys.stderr.write(f"serving.follower: {error}\n")
        return EXIT_USAGE
    if program is not None:
        os.execv(program, argv)  # noqa: S606 - it is this process that it becomes
    sys.stderr.write("serving.follower: vllm is not on the PATH of this image: use one with vLLM\n")
    return EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
