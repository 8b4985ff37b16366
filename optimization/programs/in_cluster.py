"""The job of a run in a cluster: `python -m optimization.programs.in_cluster --fetch FILE`.

It fetches the order and the inputs by the token of its run, runs the order's program in a process without a
network, tells its progress, and hands in what it wrote. FILE has the control plane's address and the token.
"""

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from common.jobs.notes import DIRECTORY, MEMORY, PROGRESS, RESULT, JobNotes
from common.jobs.remote import BYTES, JobOrder, OrderRefused
from common.jobs.run import Running, run
from common.jobs.supervise import cut_network, die_with_parent
from model_store.file_manifest import ManifestFile, manifest_of
from optimization.programs.environment import environment_of
from serving.environments import EnvironmentNotMade
from serving.fetch.control_plane import ControlPlane
from serving.fetch.errors import FetchError

PATH = "/api/v1/optimization-job/"
ENVIRONMENTS_VARIABLE = "SLIPWAY_ENVIRONMENTS"
LOOK_EVERY_SECONDS = 1.0


class ProgramFailed(Exception):
    """The order's program did not end well."""


class RunOrder(JobOrder):
    """The order of a run's job."""

    path = PATH

    def hand_in(self, output: Path, result: Mapping[str, Any]) -> None:
        """Send the files below a directory, then the result. Raises OrderRefused, OSError."""
        files = []
        for path in sorted(one for one in output.rglob("*") if one.is_file()):
            name = path.relative_to(output).as_posix()
            with path.open("rb") as file:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            files.append({"path": name, "size": path.stat().st_size, "sha256": sha256})
            self._asked("PUT", f"files/{sha256}/", path, content=BYTES)
        self._asked("PUT", "result/", json.dumps({"result": result, "files": files}).encode())


def work(running: Running, path: Path) -> Mapping[str, Any]:
    """Carry out the order `{program, family, values, paths, inputs}`; return the program's result."""
    control_plane, directory = RunOrder.of_file(path), Path(os.environ[DIRECTORY])
    told = control_plane.read()
    fetch_inputs(control_plane, told["inputs"], directory / "inputs")
    given = {**told["values"], **{name: str(directory / one) for name, one in told["paths"].items()}}
    python = sys.executable
    if told["family"]:
        # Those of its image; one that is not there is made for this job alone.
        root = os.environ.get(ENVIRONMENTS_VARIABLE) or str(directory / "environments")
        place = environment_of(told["family"]).ensure(Path(root))
        python, given["environment"] = str(place / "bin" / "python"), str(place)
    result = run_program(
        [python, "-m", told["program"]], given, directory / "program", control_plane, running
    )
    output = directory / "output"
    control_plane.hand_in(output, result)
    return result


def fetch_inputs(control_plane: RunOrder, inputs: Mapping[str, Any], directory: Path) -> None:
    """Fetch the files of versions, by their ids, each checked; nobody writes to them later."""
    plane = ControlPlane(control_plane.url, control_plane.token, path=f"{PATH}inputs/")
    try:
        for version, listed in inputs.items():
            manifest = manifest_of(ManifestFile(one["path"], one["size"], one["sha256"]) for one in listed)
            for file in manifest.files:
                place = directory / version / file.path
                place.parent.mkdir(parents=True, exist_ok=True)
                digest = hashlib.sha256()
                with place.open("wb") as written:
                    for piece in plane.content(int(version), file.sha256, file.size, 0):
                        digest.update(piece)
                        written.write(piece)
                if digest.hexdigest() != file.sha256:
                    raise ProgramFailed(f"{file.path} came with other bytes than its sha256 says.")
                place.chmod(0o444)
    finally:
        plane.close()


def run_program(
    command: list[str], order: Mapping[str, Any], directory: Path, control_plane: JobOrder, running: Running
) -> Mapping[str, Any]:
    """Return the result of a program that is a job of ours. Raises ProgramFailed, MemoryError."""
    directory.mkdir(parents=True, exist_ok=True)
    notes, last = JobNotes(directory), None

    def confined() -> None:
        die_with_parent()
        cut_network()

    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        env=os.environ | {DIRECTORY: str(directory)},
        preexec_fn=confined,
    )
    running.at_stop(process.kill)
    assert process.stdin is not None  # noqa: S101 (a pipe)
    process.stdin.write(json.dumps(order).encode())
    process.stdin.close()
    while process.poll() is None:
        time.sleep(LOOK_EVERY_SECONDS)
        progress = notes.read(PROGRESS)
        if progress and progress != last:
            last = progress
            sys.stdout.write(json.dumps({"progress": progress}) + "\n")
            sys.stdout.flush()
            control_plane.tell(progress)
    if notes.read(MEMORY) is not None:
        raise MemoryError
    result = notes.read(RESULT)
    if process.returncode or result is None:
        raise ProgramFailed(f"{command[-1]} ended with status {process.returncode}.")
    return result


def main(arguments: list[str]) -> int:
    if arguments[:1] != ["--fetch"] or len(arguments) != 2:
        sys.stderr.write("usage: python -m optimization.programs.in_cluster --fetch FILE\n")
        return 2
    try:
        return run(partial(work, path=Path(arguments[1])))
    except (ProgramFailed, OrderRefused, FetchError, EnvironmentNotMade, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
