import asyncio
import time
from collections.abc import Callable

PATIENCE_SECONDS = 60.0
"""How long a test waits for what is bound to come, on a busy machine."""


def eventually(
    holds: Callable[[], object], *, seconds: float = PATIENCE_SECONDS, every: float = 0.03
) -> None:
    """Wait until it holds, looking each `every` seconds; AssertionError when it does not in time."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(every)


async def cancelled(task: asyncio.Task[None], *, within: float = 10.0) -> None:
    """Cancel the task and wait until it has ended; AssertionError when it goes on."""
    task.cancel()
    _, going_on = await asyncio.wait({task}, timeout=within)
    assert not going_on, f"{task} goes on after its cancellation"
