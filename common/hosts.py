"""Which host this process is of: whose home it has, with the files in it that nobody else can read."""

import os
import secrets
import socket
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from django.conf import settings

MOST_CHARACTERS = 63
FILE = "host"


def this_host() -> str:
    """The name of this host among all that share a database: SLIPWAY_HOST, or one that its home keeps.

    Raises OSError when the home has none yet and cannot be written.
    """
    return settings.SLIPWAY_HOST or _kept_in(Path(settings.SLIPWAY_HOME))


def name_for_logs() -> str:
    """Return `this_host`, or the machine's own name where the home has none yet: a log line makes none."""
    if settings.SLIPWAY_HOST or (Path(settings.SLIPWAY_HOME) / FILE).exists():
        return this_host()
    return socket.gethostname()


def take_name(name: str) -> bool:
    """Be that host from now on, in a home that has none yet; False where it has one. Raises OSError."""
    home = Path(settings.SLIPWAY_HOME)
    if settings.SLIPWAY_HOST or (home / FILE).exists():
        return False
    _keep(home, name)
    return True


@cache
def _kept_in(home: Path) -> str:
    """Return the home's name, not the machine's: that may change, and a container has another each time."""
    if not (home / FILE).exists():
        _keep(home, f"{socket.gethostname()[: MOST_CHARACTERS - 5]}-{secrets.token_hex(2)}")
    return (home / FILE).read_text().strip()


def _keep(home: Path, name: str) -> None:
    home.mkdir(parents=True, exist_ok=True)
    # Linked into place whole: of two processes that make one, both read the same.
    with tempfile.NamedTemporaryFile("w", dir=home, prefix=".host-") as fresh:
        fresh.write(f"{name}\n")
        fresh.flush()
        with suppress(FileExistsError):
            os.link(fresh.name, home / FILE)
