"""How long a process was kept from computing: a CPU under load is no hang of a GPU."""

from pathlib import Path

PROC = Path("/proc")


def starved_seconds(pid: int | None, proc: Path = PROC) -> float:
    """The longest that a thread of the process has waited for a CPU so far, though it could have run (Linux,
    Documentation/scheduler/sched-stats). 0 where the kernel does not say, and of a process that is gone."""
    if pid is None:
        return 0.0
    waits = [0.0]
    for path in (proc / str(pid) / "task").glob("*/schedstat"):
        try:
            waits.append(int(path.read_text().split()[1]) / 1e9)
        except (OSError, ValueError, IndexError):
            continue
    return max(waits)
