"""The directory of a job that is a process: what runner, supervisor and the job itself write there."""

import fcntl
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from common import files
from common.jobs.spec import JobLimits, JobSpec

DIRECTORY = "SLIPWAY_JOB_DIR"
"""Variable of a job's environment: where its notes belong."""
STARTED, PROGRESS, RESULT, ENDED = "started", "progress", "result", "ended"
MEMORY = "memory"
"""Left by a job that needed more memory than it may have."""
TAIL_BYTES = 16 * 1024
LOOK_PATIENCE_SECONDS = 1.0
"""A look takes the lock for a moment; whoever takes it in earnest must outlast such a look."""


class JobNotes:
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @property
    def log(self) -> Path:
        return self.directory / "log"

    @property
    def _stop(self) -> Path:
        return self.directory / "stop"

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        """Raises OSError."""
        files.replace(self.directory / f"{name}.json", json.dumps(content).encode())

    def read(self, name: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads((self.directory / f"{name}.json").read_bytes())
        except FileNotFoundError:
            return None
        return found

    def write_spec(self, spec: JobSpec) -> None:
        """Write the spec without what goes through the job's standard input."""
        self.write(
            "spec",
            {"op_key": spec.op_key, "owner": spec.owner, "argv": spec.argv, "limits": asdict(spec.limits)},
        )

    def read_spec(self) -> JobSpec:
        told = self.read("spec")
        if told is None:
            raise FileNotFoundError(self.directory / "spec.json")
        return JobSpec(told["op_key"], told["owner"], tuple(told["argv"]), limits=JobLimits(**told["limits"]))

    def ask_to_stop(self) -> None:
        with suppress(FileNotFoundError):
            self._stop.touch()

    @property
    def is_to_stop(self) -> bool:
        return self._stop.exists()

    def log_tail(self, most_bytes: int = TAIL_BYTES) -> str:
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - most_bytes))
                return file.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return ""

    def lock(self) -> int | None:
        """A descriptor that holds the job's lock, for its processes to inherit: it falls with the last of
        them. None: the job has it.
        """
        deadline = time.monotonic() + LOOK_PATIENCE_SECONDS
        descriptor = self._open_lock(os.O_CREAT)
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if self.read(STARTED) is not None or time.monotonic() > deadline:
                    os.close(descriptor)
                    return None
                time.sleep(0.02)
            else:
                return descriptor

    def is_locked(self) -> bool:
        try:
            descriptor = self._open_lock()
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def _open_lock(self, how: int = 0) -> int:
        return os.open(self.directory / "lock", os.O_RDWR | os.O_CLOEXEC | how, 0o600)
