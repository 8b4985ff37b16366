"""What picklescan says of pickles: advice, and no proof.

`python -m trust.formats.pickle_scan SUFFIX` is its process.

Such scanners have been fooled often (CVE-2025-10155, -10156, -10157): what they do not find may still be
there, so nothing is let in or served because of them. The scan reads its standard input and nothing else, in
a process of its own that has no environment, no network and no right to start another one, little memory and
little time; how it ends is told either way.
"""

import codecs
import ctypes
import importlib.util
import json
import logging
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from model_store.reading import Content
from trust.formats import recognised

PATIENCE_SECONDS = 120.0
MEMORY_BYTES = 2 * 1024**3
CPU_SECONDS = 60
MAX_FINDINGS = 100
MAX_NAME = 200
_CODE = Path(__file__).resolve().parents[2]
_PR_SET_PDEATHSIG = 1
_REFUSED_EVENTS = (
    "socket.", "subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "ctypes.",
    "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.chmod", "os.chown", "os.link", "os.symlink",
    "os.truncate", "shutil.",
)  # fmt: skip
"""Of https://docs.python.org/3/library/audit_events.html: nothing that a scan needs."""


@dataclass(frozen=True, slots=True)
class ScanFinding:
    """A name that a pickle imports, and what picklescan thinks of it: `suspicious` or `dangerous`."""

    name: str
    level: str


@dataclass(frozen=True, slots=True)
class PickleScan:
    """The findings of the scan of one file; `fault` says why it did not end, or is empty."""

    path: str
    findings: tuple[ScanFinding, ...] = ()
    fault: str = ""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "PickleScan":
        findings = tuple(ScanFinding(str(one["name"]), str(one["level"])) for one in data["findings"])
        return cls(data["path"], findings, data["fault"])


def advice_on(
    path: str, format: str, content: Content, *, patience_seconds: float = PATIENCE_SECONDS
) -> PickleScan | None:
    """Return picklescan's findings for a file of that format, or None if it holds no pickles."""
    if format not in recognised.OF_PICKLES:
        return None
    descriptor = getattr(content, "descriptor", None)
    if descriptor is None:
        return PickleScan(path, fault="It was not scanned: its store gives no file that a scan could read.")
    command = [sys.executable, "-P", "-m", __name__, PurePosixPath(path).suffix.lower()]
    try:
        # A file of its own: the child's reading moves no offset of ours.
        with Path(f"/proc/self/fd/{descriptor}").open("rb") as own:
            done = subprocess.run(
                command,
                cwd=_CODE,
                env={"PYTHONPATH": str(_CODE)},
                stdin=own,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=patience_seconds,
                check=False,
            )
    except subprocess.TimeoutExpired:
        return PickleScan(path, fault=f"The scan took longer than {patience_seconds:.0f} s.")
    except OSError as error:
        return PickleScan(path, fault=f"The scan could not begin: {error.strerror or error}.")
    try:
        return PickleScan.from_json({"path": path, **json.loads(done.stdout)})
    except (ValueError, KeyError, TypeError):
        return PickleScan(path, fault=f"The scan ended without an answer (status {done.returncode}).")


def _scanned(suffix: str) -> dict[str, Any]:
    from picklescan.scanner import SafetyLevel, scan_bytes

    logging.disable()
    _shut()
    try:
        result = scan_bytes(sys.stdin.buffer, "file", suffix)
    except MemoryError:
        return {"findings": [], "fault": "The scan needed more memory than it may take."}
    except Exception as error:  # a scanner fed with what nobody trusts may fail in any way
        return {"findings": [], "fault": f"The scan failed: {type(error).__name__}: {str(error)[:MAX_NAME]}"}
    found = {
        (f"{one.module}.{one.name}"[:MAX_NAME], one.safety.value)
        for one in result.globals
        if one.safety != SafetyLevel.Innocuous
    }
    listed = sorted(found, key=lambda one: (one[1] != SafetyLevel.Dangerous.value, one))
    faults = ["Parts of it could not be read as a pickle."] if result.scan_err else []
    if not result.scanned_files:
        faults.append("The scan found no pickle in it.")
    if len(listed) > MAX_FINDINGS:
        faults.append(f"Only the first {MAX_FINDINGS} of {len(listed)} names are listed.")
    findings = [{"name": name, "level": level} for name, level in listed[:MAX_FINDINGS]]
    return {"findings": findings, "fault": " ".join(faults)}


def _shut() -> None:
    """Keep this process from opening files and sockets for good, and end it with its parent. Python code
    cannot undo it.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # What picklescan would load later, when no file can be opened any more.
    if importlib.util.find_spec("numpy"):
        importlib.import_module("numpy.lib.format")
    for encoding in ("ascii", "cp437", "latin-1", "raw_unicode_escape", "utf-8"):
        codecs.lookup(encoding)
    for limit, most in (
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_CPU, CPU_SECONDS),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        # None is left: neither a file nor a socket.
        (resource.RLIMIT_NOFILE, 3),
    ):
        resource.setrlimit(limit, (most, most))

    def refuse(event: str, _: tuple[Any, ...]) -> None:
        if event == "open" or event.startswith(_REFUSED_EVENTS):
            raise PermissionError(f"a scan may not do this: {event}")

    sys.addaudithook(refuse)


def main(arguments: list[str]) -> int:
    os.nice(10)
    json.dump(_scanned(arguments[0]), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
