"""Roles that are forked from their supervisord instead of started: what all of them load is loaded once.

Three processes that each import the whole control plane take its memory three times, and its time at each
start. The supervisord of the control plane imports it before it starts anybody; a role is then a fork of it.
To everybody who reads the process table such a process looks as if it had been started by its command.
"""

import ctypes
import gc
import os
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from controlplane.embedded import running

SERVER = "controlplane.server"
ROLES = ("web", "worker", "sweeper")
ROOM_FOR_MARK = "-" * 400
"""In the environment of a supervisord that preloads, as its mark: its forks have theirs in the same place."""
_ENVIRONMENT_FIELDS = slice(47, 51)
"""Of /proc/PID/stat, counted from 0: where arguments begin and end, and the environment."""


def preload() -> None:
    """Load what the roles need. A fault is theirs to tell: they are started by their commands then."""
    with suppress(Exception):
        from controlplane.garbage import set_up_django

        set_up_django()
        import uvicorn  # noqa: F401
        from django.urls import get_resolver

        import controlplane.worker  # noqa: F401

        _ = get_resolver().url_patterns
    # Forks share pages that nobody writes to, and a garbage collection writes to every object it visits.
    gc.collect()
    gc.freeze()


def is_preloaded(argv: Sequence[str]) -> bool:
    return list(argv[:3]) == [sys.executable, "-m", SERVER] and argv[3] in ROLES and _is_loaded()


def become(argv: Sequence[str], environ: Mapping[str, str]) -> None:
    """Run the role of this command to its end, in a fork of the supervisord; never returns."""
    status = 1
    try:
        for number in signal.valid_signals():
            with suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        os.environ.clear()
        os.environ.update(environ)
        sys.argv = ["-m", *argv[3:]]
        _look_like(argv, environ[running.MARK])
        from controlplane.server.__main__ import main

        main()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1 if end.code else 0
    except KeyboardInterrupt:
        status = 130
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        # Not by returning: what the supervisord holds is closed by it alone.
        os._exit(status)


def _is_loaded() -> bool:
    if "controlplane.worker" not in sys.modules:
        return False
    from django.apps import apps

    return apps.ready


def _look_like(argv: Sequence[str], mark: str) -> None:
    """Write command and mark where the kernel shows them: /proc/PID/cmdline and environ."""
    # The second field is a name in parentheses, which may hold spaces.
    numbers = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    arguments, arguments_end, environment, environment_end = (
        int(one) for one in ["", "", *numbers][_ENVIRONMENT_FIELDS]
    )
    room = arguments_end - arguments
    ctypes.memmove(arguments, "\0".join(argv).encode()[: room - 1].ljust(room, b"\0"), room)
    key = f"{running.MARK}=".encode()
    area = ctypes.string_at(environment, environment_end - environment)
    at = area.find(key + ROOM_FOR_MARK.encode())
    if at < 0 or len(mark.encode()) + 4 > len(ROOM_FOR_MARK):
        return
    # The rest of the room becomes a variable of its own: an empty one would end the environment.
    filled = key + mark.encode() + b"\0_="
    ctypes.memmove(
        environment + at, filled.ljust(len(key) + len(ROOM_FOR_MARK), b"-"), len(key) + len(ROOM_FOR_MARK)
    )
