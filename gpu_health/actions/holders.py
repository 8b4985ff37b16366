"""Processes that hold GPUs open: daemons of the machine are stopped and come back, all others are waited for.

Operands of the GPU operator leave meanwhile, because they were paused (`NodeOperations.pause_operands`).
"""

from collections.abc import Sequence

from gpu_health.actions.base import Command

UNHELD = """
minor='[0-9]*'
[ -z "$0" ] || minor=$(nvidia-smi -i "$0" -q | sed -n 's/^ *Minor Number *: *//p')
for _ in $(seq 90); do
  held=$(find /proc/[0-9]*/fd -lname "/dev/nvidia$minor" 2>/dev/null | cut -d/ -f3 | sort -un)
  [ -n "$held" ] || exit 0
  sleep 2
done
for pid in $held; do names="$names $(cat "/proc/$pid/comm" 2>/dev/null) ($pid)"; done
echo "The GPU is still held by:$names"
exit 1
"""
"""Takes the GPU; none: all of them. Ends well once no process has it open, within three minutes."""
WITHIN_SECONDS = 240.0
MONITORS = ("nvidia-dcgm", "dcgm-exporter", "nvidia-persistenced")


def stopped(gpu: str = "", services: Sequence[str] = MONITORS) -> tuple[Command, ...]:
    """Commands after which nobody holds the GPU, or any of the machine."""
    stops = (Command(("systemctl", "stop", one), may_fail=True) for one in services)
    return (*stops, Command(("sh", "-c", UNHELD, gpu), seconds=WITHIN_SECONDS))


def started(services: Sequence[str] = MONITORS) -> tuple[Command, ...]:
    """Commands that start the services again, also after what came between has failed."""
    return tuple(Command(("systemctl", "start", one), may_fail=True, always=True) for one in services)
