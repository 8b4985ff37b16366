"""Environments of Python packages, each made from a lock file when it is first asked for.

A lock file names every package with its hashes, so an environment is a function of that file, of the Python
and of the machine's kind: its directory is named by a digest of these. It is made beside its place and
renamed there whole; who asks meanwhile waits. `uv` makes it, or pip where uv is not installed, from the
indexes that they are set up with.
Wheels that no index has may lie in a directory that `UV_FIND_LINKS` or `PIP_FIND_LINKS` names.
"""

import contextlib
import fcntl
import hashlib
import importlib.util
import logging
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

log = logging.getLogger(__name__)

MAKE_WITHIN_SECONDS = 3_600.0
KEPT_SECONDS = 7 * 86_400.0
IN_USE = "in-use"
_GET_UV = "pip install uv"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


class EnvironmentNotMade(Exception):
    """The text says why and what to do."""


@dataclass(frozen=True, kw_only=True)
class LockedEnvironment:
    """`lock`: the text of a requirements file in which each package has its hashes (`uv pip compile
    --generate-hashes`). `python`: the version that it was resolved for, such as 3.11; empty: this one.
    `also`: directories whose modules it sees, too, after its own packages."""

    name: str
    lock: str
    python: str = ""
    also: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The name of its directory."""
        python = self.python or platform.python_version()
        kind = (python, sysconfig.get_platform(), sys.implementation.cache_tag)
        what = "\0".join((self.lock, *kind, *self.also))
        return f"{self.name}-{hashlib.sha256(what.encode()).hexdigest()[:16]}"

    def ensure(self, root: Path) -> Path:
        """Its directory below `root`, made now if it is not there. Blocks, for minutes where packages are
        downloaded. Raises EnvironmentNotMade."""
        if not _NAME.fullmatch(self.name):
            raise EnvironmentNotMade(f"an environment's name must match {_NAME.pattern}")
        place = root / self.key
        if place.exists():
            return place
        try:
            root.mkdir(parents=True, exist_ok=True)
            with _exclusive(root / f".{self.key}.lock"):
                if not place.exists():
                    self._make(root, place)
        except OSError as error:
            raise EnvironmentNotMade(f"{place} cannot be made: {error.strerror or error}") from None
        return place

    def _make(self, root: Path, place: Path) -> None:
        began = time.monotonic()
        log.info("making the environment %s; with a large engine this takes minutes", place.name)
        for left in root.glob(f".{self.key}.part-*"):  # of a maker that was killed: nobody else is here
            shutil.rmtree(left, ignore_errors=True)
        part = Path(tempfile.mkdtemp(prefix=f".{self.key}.part-", dir=root))
        try:
            lock = part / "requirements.txt"
            lock.write_text(self.lock)
            deadline = began + MAKE_WITHIN_SECONDS
            if _uv_program():
                self._install_by_uv(part, lock, deadline)
            else:
                self._install_by_pip(part, lock, deadline, place=place)
            for site in part.glob("lib/python*/site-packages") if self.also else ():
                (site / "slipway_also.pth").write_text("".join(f"{path}\n" for path in self.also))
            part.chmod(0o755)
            part.rename(place)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        log.info("made the environment %s in %.0f s", place.name, time.monotonic() - began)

    def _install_by_uv(self, part: Path, lock: Path, deadline: float) -> None:
        # Relocatable: its programs find their Python after the renaming, too.
        python = self.python or sys.executable
        _uv(["venv", "--relocatable", "--allow-existing", f"--python={python}", str(part)], deadline)
        backend = ["--torch-backend=cpu"] if "+cpu" in self.lock and not _find_links() else []
        _uv(
            [
                "pip", "install", f"--python={part / 'bin' / 'python'}", "--require-hashes", "--no-deps",
                "--compile-bytecode", *backend, f"--requirements={lock}",
            ],
            deadline,
        )  # fmt: skip

    def _install_by_pip(self, part: Path, lock: Path, deadline: float, *, place: Path) -> None:
        if self.python not in ("", "{}.{}".format(*sys.version_info)):
            raise EnvironmentNotMade(f"it needs Python {self.python}, which uv finds or fetches: {_GET_UV}")
        if importlib.util.find_spec("pip") is None:
            raise EnvironmentNotMade(f"neither uv nor pip is installed here: {_GET_UV}")
        _run("venv", [sys.executable, "-m", "venv", "--without-pip", str(part)], deadline)
        arguments = ["--require-hashes", "--no-deps", "--disable-pip-version-check", f"--requirement={lock}"]
        pip = [sys.executable, "-m", "pip", f"--python={part / 'bin' / 'python'}", "install", *arguments]
        _run("pip install", pip, deadline)
        for program in (part / "bin").iterdir():
            # Its first line names the Python where it was installed.
            if not program.is_symlink() and (text := program.read_bytes()).startswith(b"#!"):
                program.write_bytes(text.replace(bytes(part), bytes(place), 1))


def export_lock(directory: Path) -> str:
    """The `uv.lock` of a project as the text of a requirements file. Raises EnvironmentNotMade."""
    wanted = ["--frozen", "--no-dev", "--no-emit-project", "--no-header", f"--project={directory}"]
    return _uv(["export", *wanted], time.monotonic() + MAKE_WITHIN_SECONDS)


def _uv_program() -> str:
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.exists() else shutil.which("uv") or ""


def _uv(arguments: list[str], deadline: float) -> str:
    if not (program := _uv_program()):
        raise EnvironmentNotMade(f"only uv reads uv.lock: {_GET_UV}")
    return _run(f"uv {arguments[0]}", [program, *arguments, "--quiet", "--no-config"], deadline)


def _run(called: str, command: list[str], deadline: float) -> str:
    """Return what it wrote. Raises EnvironmentNotMade with what it complained of."""
    links = dict.fromkeys(("UV_FIND_LINKS", "PIP_FIND_LINKS"), _find_links()) if _find_links() else {}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            check=False,
            env=os.environ | links,
            text=True,
            timeout=max(1.0, deadline - time.monotonic()),
        )
    except subprocess.TimeoutExpired:
        raise EnvironmentNotMade(f"{called} did not end within {MAKE_WITHIN_SECONDS:g} s") from None
    if done.returncode:
        words = " ".join(done.stderr.split())
        raise EnvironmentNotMade(f"{called} failed: {words[-800:] or f'status {done.returncode}'}")
    return done.stdout


def _find_links() -> str:
    return os.environ.get("UV_FIND_LINKS") or os.environ.get("PIP_FIND_LINKS", "")


@contextlib.contextmanager
def _exclusive(path: Path, *, waits: bool = True) -> Iterator[None]:
    """Let in one maker at a time, of all processes; whoever dies lets go of it. Raises BlockingIOError."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
        yield


def ensure_held(environment: LockedEnvironment, root: Path) -> Path:
    """Return the directory like `ensure`; nobody removes it as long as this process lives."""
    while not hold(place := environment.ensure(root)):
        pass
    return place


def hold(place: Path) -> bool:
    """Keep an environment as long as this process lives; whether it is there."""
    with contextlib.suppress(FileNotFoundError):
        # Never closed: the lock falls with the process.
        descriptor = os.open(place / IN_USE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        os.utime(descriptor)
        if place.exists():
            return True
        os.close(descriptor)
    return False


def remove_unused(root: Path, *, kept_seconds: float = KEPT_SECONDS) -> None:
    """Remove the environments that nobody holds and that nobody has begun to use for so long; others than
    those that `ensure_held` gave stay."""
    for mark in root.glob(f"*/{IN_USE}"):
        with contextlib.suppress(OSError):
            if time.time() - mark.stat().st_mtime < kept_seconds:
                continue
            with _exclusive(mark, waits=False):
                gone = mark.parent.rename(root / f".{mark.parent.name}.gone")
            shutil.rmtree(gone, ignore_errors=True)
            log.info("removed the environment %s, which nobody uses any more", mark.parent.name)
