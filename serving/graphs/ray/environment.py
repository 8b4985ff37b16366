"""Ray's own environment of packages, and the command that runs a graph in it."""

import json
import os
import subprocess
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from serving.environments import EnvironmentNotMade, LockedEnvironment, ensure_held
from serving.graphs.errors import GraphError
from serving.leash import end_with_parent
from serving.runtime.packages import own_paths
from serving.worker_command import default_environments

LOCKED_FOR_PYTHON = "3.11"
EXIT_REFUSED = 2
"""Of the command: the graph, its plan or its input cannot be meant so."""
QUIET = {
    "PYTHONUNBUFFERED": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def environment() -> LockedEnvironment:
    """Ray's packages; what they lack, such as those that graphs need, is this environment's."""
    lock = files("serving.graphs.ray").joinpath("locks", "ray.txt").read_text()
    return LockedEnvironment(name="ray", lock=lock, python=LOCKED_FOR_PYTHON, also=tuple(own_paths()))


def run(arguments: Sequence[str]) -> dict[str, Any]:
    """Runs `python -m serving.graphs.ray` in its environment, which is made now if it is not there, and
    returns the report that it ends with. Raises GraphError."""
    try:
        python = ensure_held(environment(), default_environments()) / "bin" / "python"
    except EnvironmentNotMade as error:
        raise GraphError(f"Ray cannot be installed: {error}") from None
    with subprocess.Popen(
        [str(python), "-m", "serving.graphs.ray", *arguments],
        env=os.environ | QUIET,
        preexec_fn=end_with_parent,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        said = _last_words(child)
    try:
        report: dict[str, Any] = json.loads(said.strip().rpartition("\n")[2])
    except ValueError:
        raise GraphError(f"Ray ended with status {child.returncode} and no report") from None
    if "error" in report:
        raise GraphError(report["error"])
    return report


def _last_words(child: "subprocess.Popen[str]") -> str:
    while True:
        try:
            return child.communicate()[0]
        except KeyboardInterrupt:
            continue  # the terminal has told it as well: it ends its Ray first
