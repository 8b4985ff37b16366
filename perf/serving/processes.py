"""What eight CPU processes cost whose app imports torch: forked of a template, and with an import of each."""

import time
from pathlib import Path

from perf.required import RequiredFigure, at_most
from perf.serving.load import tree
from perf.serving.running import service

APP = """
import torch
from slipway import serve

app = serve.App(processes=8)

@app.post("/ones")
def ones():
    return float(torch.ones(8).sum())
"""
# What no fork can share has each process import the file.
APART = APP + "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()\n"


def _cost(source: str) -> tuple[float, float]:
    """Seconds to ready, and megabytes of all processes: what they share is counted once."""
    began = time.monotonic()
    with service(source) as running:
        seconds = time.monotonic() - began
        kilobytes = 0
        for pid in tree(running.pid):
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            kilobytes += int(rollup.partition("\nPss:")[2].split()[0])
        return seconds, kilobytes / 1_024


def rows(_: str) -> list[RequiredFigure]:
    apart, forked = _cost(APART), _cost(APP)
    told = [
        RequiredFigure(
            f"8 CPU processes with torch, {name}", f"ready after {seconds:.1f} s, {megabytes:,.0f} MB"
        )
        for name, (seconds, megabytes) in (("each with its import", apart), ("forked", forked))
    ]
    for name, index in (("time to ready", 0), ("memory", 1)):
        ratio = forked[index] / apart[index]
        told.append(at_most(f"8 CPU processes with torch: {name}, forked / each by itself", ratio, 0.75))
    return told
