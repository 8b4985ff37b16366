"""A worker measures its own tasks, with inputs of items that it kept, in a process that stands back.

`python -m serving.graphs.self_profile APP.py INPUT DEVICE` writes the report to its standard output.
"""

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from serving.graphs.errors import GraphError
from serving.leash import end_with_parent, parent_is_gone

NICE = 19
WITHIN_SECONDS = 1_800.0


class SelfProfile:
    """The one profile of a worker that is taken, or was last. `state`: idle, running, done or failed."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._task: asyncio.Task[None] | None = None
        self.state, self.problem = "idle", ""
        self.report: dict[str, Any] = {}

    def document(self) -> dict[str, Any]:
        return {"state": self.state, "problem": self.problem, "report": self.report}

    def begin(self, items: Sequence[Mapping[str, bytes]], device: str) -> None:
        """Raises GraphError where there is nothing to measure with, or no free core."""
        if self.state == "running":
            return
        if not items:
            raise GraphError("no inputs are kept: send some items first")
        if os.getloadavg()[0] > len(os.sched_getaffinity(0)):
            raise GraphError("no core of the machine is free")
        self.state, self.problem, self.report = "running", "", {}
        self._task = asyncio.create_task(self._run(items, device))

    async def _run(self, items: Sequence[Mapping[str, bytes]], device: str) -> None:
        with tempfile.TemporaryDirectory() as place:
            source = written(items, Path(place))
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", __name__, str(self._file), str(source), device, str(os.getpid())),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            try:
                told, errors = await asyncio.wait_for(process.communicate(), WITHIN_SECONDS)
                self.report = json.loads(told.splitlines()[-1])
                self.state = "done"
            except (TimeoutError, ValueError, IndexError) as error:
                if process.returncode is None:
                    process.kill()
                said = "" if isinstance(error, TimeoutError) else errors.decode(errors="replace").strip()
                self.problem = said.splitlines()[-1][:500] if said else "it took too long"
                self.state = "failed"


def written(items: Sequence[Mapping[str, bytes]], place: Path) -> Path:
    """Write items as `slipway graph run` reads them; return the directory or the file."""
    if len(items[0]) == 1:
        for number, item in enumerate(items):
            (place / f"{number:04d}.bin").write_bytes(next(iter(item.values())))
        return place
    file = place / "items.jsonl"
    lines = ({name: _value(data) for name, data in item.items()} for item in items)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def _value(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return data.decode(errors="replace")


def main(file: str, source: str, device: str, parent: str) -> int:
    from serving.graphs.profile_neighbours import free_cores
    from serving.graphs.profiling import profile

    end_with_parent(signal.SIGKILL)
    if parent_is_gone(int(parent)):
        return 1
    os.nice(NICE)
    try:
        report = profile(Path(file), Path(source), device=device, beside=max(0, free_cores() - 1))
    except Exception as error:  # of the user's file, which may raise anything
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(json.dumps(report) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
