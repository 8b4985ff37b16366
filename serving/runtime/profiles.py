"""Profiles of the processes with models, as the front has them taken."""

import asyncio
import io
import re
import zipfile
from collections.abc import Iterable

from serving.runtime.errors import Problem
from serving.runtime.supervised_child import Child

LONGEST_SECONDS = 60
SPARE_SECONDS = 60.0
"""For writing the trace down."""


def seconds_of(query: str) -> int:
    """Raises Problem."""
    found = re.fullmatch(r"seconds=([0-9]{1,3})", query)
    if found is None or not 1 <= int(found[1]) <= LONGEST_SECONDS:
        raise Problem(422, "Wrong duration", f"Give ?seconds=, from 1 to {LONGEST_SECONDS}.")
    return int(found[1])


async def profiled(children: Iterable[Child], seconds: int) -> bytes:
    """Profile the models' processes at the same time; returns a zip with a trace of each. Raises Problem."""
    ready = [child for child in children if child.is_ready.is_set()]
    if not ready:
        raise Problem(409, "No model", "No process with a model is ready: torch's profiler looks into those.")
    try:
        async with asyncio.timeout(seconds + SPARE_SECONDS):
            traces = await asyncio.gather(*(child.torch_profile(seconds) for child in ready))
    except TimeoutError:
        raise Problem(504, "No trace", "A model's process has not ended its profile in time.") from None
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for child, trace in zip(ready, traces, strict=True):
            archive.writestr(f"{child.order.name.replace('#', '-')}.trace.json.gz", trace)
    return packed.getvalue()
