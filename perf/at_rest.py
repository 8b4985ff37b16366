"""What `bin/up` takes with nothing to do: `python -m perf.at_rest [--seconds 60]`.

A whole stack in a temporary home, started twice. Of each process of the second start: its share of memory
(PSS, which counts a page that several hold once in all) and its own CPU over the time; others on the machine
change neither. The seconds of the second start are those of the clock.
"""

import argparse
import tempfile
import time
from pathlib import Path

import psutil

from tests.marked import living
from tests.stack.conftest import RunningStack

SETTLES_SECONDS = 30.0


def name_of(process: psutil.Process) -> str:
    words = process.cmdline()
    if "-m" in words:
        at = words.index("-m") + 1
        role = words[at + 1] if at + 1 < len(words) and not words[at + 1].startswith("-") else ""
        words = [f"{words[at]} {role}".strip()]
    return Path(words[0]).name if "/" in words[0] else words[0]


def pss_mib(process: psutil.Process) -> float:
    lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def start(stack: RunningStack) -> float:
    began = time.monotonic()
    stack.process = stack.launch()
    stack.wait_until_ready(seconds=180)
    return time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory(prefix="slipway-") as home:
        stack = RunningStack(Path(home) / "home", "controlplane.embedded")
        try:
            stack.wait_until_ready(seconds=300)
            stack.stop()
            second_start = start(stack)
            time.sleep(SETTLES_SECONDS)
            before = {one: cpu_seconds(one) for one in living(stack.mark)}
            time.sleep(seconds)
            rows = [
                (name_of(one), pss_mib(one), 100 * (cpu_seconds(one) - spent) / seconds)
                for one, spent in before.items()
                if one.is_running()
            ]
        finally:
            stack.stop()
    print(f"{'process':<44} {'PSS MiB':>8} {'CPU %':>6}")
    for name, memory, cpu in sorted(rows, key=lambda row: -row[1]):
        print(f"{name:<44} {memory:8.0f} {cpu:6.2f}")
    print(f"{'all':<44} {sum(row[1] for row in rows):8.0f} {sum(row[2] for row in rows):6.2f}")
    print(f"second start: {second_start:.1f} s")


if __name__ == "__main__":
    main()
