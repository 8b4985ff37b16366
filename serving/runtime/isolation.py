"""A team's own code runs as another user, with limits of the kernel, where the worker may arrange that."""

import contextlib
import ctypes
import os
import pwd
import resource
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

USER_VARIABLE = "SLIPWAY_APP_USER"
"""Name of the user; unset: `nobody` where the worker is root; `none`: nobody else on purpose."""
PROBE_WITHIN_SECONDS = 30
_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_PTRACER = 0x59616D61
# uvloop starts no process as another user, and a process of ours must not run code in between.
_BECOME = """
import os, sys
user, group = map(int, sys.argv[1:3])
os.setgroups([])
os.setresgid(group, group, group)
os.setresuid(user, user, user)
os.execv(sys.argv[3], sys.argv[3:])
"""


@dataclass(frozen=True)
class Limits:
    """Limits of each process; 0: none. `memory_mb` is what it may allocate, not what it maps."""

    memory_mb: int = 0
    processes: int = 4_096
    """Of its user, all workers of the machine together."""
    files: int = 65_536

    def apply(self) -> None:
        """Apply the limits to this process, for good."""
        for what, most in (
            (resource.RLIMIT_DATA, self.memory_mb << 20),
            (resource.RLIMIT_NPROC, self.processes),
            (resource.RLIMIT_NOFILE, self.files),
        ):
            if most:
                hard = resource.getrlimit(what)[1]
                least = most if hard == resource.RLIM_INFINITY else min(most, hard)
                resource.setrlimit(what, (least, least))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def let_trace(pid: int) -> None:
    """The front, and the profiler that it starts, may look into this process."""
    _prctl(_PR_SET_PTRACER, pid)


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


class Isolation:
    """The user that processes of the service run as; `words` say it, or why it is no other."""

    def __init__(self) -> None:
        self.uid: int | None = None
        self._gid = 0
        self._home: Path | None = None
        self.words = ""

    def arrange(self, python: str, file: Path) -> None:
        """Find the user, and try whether it could run the file. Blocks."""
        named = os.environ.get(USER_VARIABLE, "")
        if named == "none" or (not named and os.geteuid() != 0):
            self.words = f"as the worker's own user ({_name_of(os.geteuid())})"
            return
        self.words = f"as the worker's own user ({_name_of(os.geteuid())}), not as {named or 'nobody'}: "
        try:
            user = pwd.getpwnam(named or "nobody")
        except KeyError:
            self.words += "there is no such user"
            return
        if os.geteuid() not in (0, user.pw_uid):
            self.words += "only a worker that is root may change it"
            return
        if fault := _fault_of(python, file, user.pw_uid, user.pw_gid):
            self.words += fault
            return
        self.uid, self._gid = user.pw_uid, user.pw_gid
        self._home = Path(tempfile.mkdtemp(prefix="slipway-app-"))
        os.chown(self._home, self.uid, self._gid)
        self.words = f"as the user {user.pw_name}"

    @property
    def environment(self) -> dict[str, str]:
        return {"HOME": str(self._home), "TMPDIR": str(self._home)} if self._home else {}

    def command(self, argv: list[str]) -> list[str]:
        """The same command, begun as that user: no file of the environment is read before."""
        if self.uid is None:
            return argv
        return [sys.executable, "-I", "-S", "-c", _BECOME, str(self.uid), str(self._gid), *argv]

    def end(self) -> None:
        if self._home is not None:
            shutil.rmtree(self._home, ignore_errors=True)


def _fault_of(python: str, file: Path, uid: int, gid: int) -> str:
    """Why that user cannot run it; empty: it can."""
    code = "import sys; open(sys.argv[1]).close(); import serving.runtime.child"
    try:
        tried = subprocess.run(
            [python, "-c", code, str(file)],
            user=uid,
            group=gid,
            extra_groups=[],
            capture_output=True,
            text=True,
            timeout=PROBE_WITHIN_SECONDS,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return (tried.stderr.strip().splitlines() or ["it failed"])[-1] if tried.returncode else ""


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
