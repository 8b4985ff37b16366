"""What is checked of one device, in a process of its own: what hangs there holds back nothing else."""

import os
import traceback
from typing import Any

from serving.checks import bandwidth, load, matrix_products, memory_patterns
from serving.checks.device import DeviceUnderTest, nvml_of
from serving.checks.levels import Level
from serving.checks.report import CheckOutcome

LINK_WITHIN_SECONDS = 30.0
FINGERPRINT, ENDED = "fingerprint", "ended"


def run(target: DeviceUnderTest, level: Level, link: Any, say: Any) -> None:
    """Each check is said when it is through. `link`: a lock, for one at a time on what GPUs share."""
    try:
        _run(target, level, link, say)
    except Exception as error:
        # A GPU that fell off the bus, or an uncorrectable error: CUDA says so by an exception.
        where = traceback.extract_tb(error.__traceback__)[-1].name
        first = next(iter(str(error).splitlines()), "")
        say.put(target.check("answers", CheckOutcome.FAILED, f"{type(error).__name__} in {where}: {first}"))
    say.put(ENDED)


def _run(target: DeviceUnderTest, level: Level, link: Any, say: Any) -> None:
    nvml = nvml_of(target)
    if nvml and (others := nvml.others(os.getpid())):
        busy = ", ".join(map(str, others[:5]))
        words = f"Somebody computes on it (process {busy}): only idle GPUs are checked."
        say.put(target.check("is_idle", CheckOutcome.SKIPPED, words))
        return
    found, fingerprint = matrix_products.check(target, level.matrix)
    say.put(found)
    say.put((FINGERPRINT, fingerprint))
    say.put(memory_patterns.check(target, level.memory))
    say.put(bandwidth.check_memory(target, level.bandwidth))
    # Whoever has it may have been ended with it.
    if link.acquire(timeout=LINK_WITHIN_SECONDS):
        try:
            for one in bandwidth.check_link(target, level.bandwidth):
                say.put(one)
        finally:
            link.release()
    else:
        say.put(target.check("host_to_gpu", CheckOutcome.SKIPPED, "Another GPU did not let go of the link."))
    for one in load.check(target, level.load, nvml):
        say.put(one)
