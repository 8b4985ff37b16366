"""The limit on targets of one Envoy: each takes an inotify instance, and Envoy aborts without one.

See `max_user_instances` in inotify(7): a limit of the machine for all processes of a user together.
"""

from pathlib import Path

from gateway.errors import InvalidRoute

LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
SHARE = 0.75
"""The rest is for Envoy's own files and for the user's other programs."""


def most_targets() -> int | None:
    """Return the limit on targets; None where the system has none."""
    try:
        return int(int(LIMIT.read_text()) * SHARE)
    except (OSError, ValueError):
        return None


def check_room(route: str, targets: int) -> None:
    """Raises InvalidRoute when Envoy could not watch so many targets."""
    most = most_targets()
    if most is not None and targets > most:
        raise InvalidRoute(
            f"Route {route} would make it {targets} targets, and Envoy can watch {most} here. "
            "Remove routes, or raise fs.inotify.max_user_instances of this machine (sysctl)."
        )
