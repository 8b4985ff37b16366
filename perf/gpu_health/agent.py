"""The node agent of a machine on which nothing happens: own CPU and memory."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from perf.required import RequiredFigure, at_most

SETTLES_SECONDS = 5.0
MOST_CPU = 0.01
MOST_MEGABYTES = 40.0


def rows(*, seconds: int) -> list[RequiredFigure]:
    """Nobody hears it: reports that fail cost more than those that are taken."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "token").write_text("nobody")
        command = [
            *(sys.executable, "-m", "serving.node_agent", "--node", "perf"),
            *("--socket", str(home / "agent.sock"), "--url", "http://127.0.0.1:9/"),
            *("--token-file", str(home / "token"), "--spool", str(home / "spool")),
        ]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(SETTLES_SECONDS)
            watched = psutil.Process(process.pid)
            if process.poll() is not None:
                raise SystemExit(f"The agent has ended with {process.returncode}: {' '.join(command)}")
            before = watched.cpu_times()
            time.sleep(seconds)
            after = watched.cpu_times()
            memory = watched.memory_full_info()
        finally:
            process.terminate()
            process.wait(10)
    used = (after.user + after.system - before.user - before.system) / seconds
    return [
        at_most("idle agent, share of a core", used, MOST_CPU),
        at_most("  memory of its own, MB", memory.uss / 1e6, MOST_MEGABYTES),
    ]
