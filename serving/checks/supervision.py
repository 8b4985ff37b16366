"""All devices side by side, each in its process; one that does not answer in time has failed.

Time in which its process waited for a CPU of the machine does not count.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from queue import Empty
from typing import Any

from serving.checks import collective, dcgm, infiniband, one_device
from serving.checks.cpu_time import starved_seconds
from serving.checks.device import DeviceUnderTest
from serving.checks.levels import Level
from serving.checks.report import CheckOutcome, DeviceCheck, Report

LOOK_EVERY_SECONDS = 0.2
MOST_STARVED = 3
"""Times its limit a process may wait for a CPU, until it is given up."""
Work = Callable[[DeviceUnderTest, Level, Any, Any], None]


def run(
    targets: Sequence[DeviceUnderTest], level: Level, work: Work = one_device.run, *, network: bool = False
) -> Report:
    """`work`: what is done per device; another one in tests of this supervision. `network`: the ports of the
    machine, too."""
    began = time.monotonic()
    checks, fingerprints = _each(targets, level, work)
    checks += odd_ones(targets, fingerprints)
    hang = {one.gpu_uuid for one in checks if one.name == "answers"}
    busy = any(one.name == "is_idle" for one in checks)
    # Together with one that hangs or is somebody's, all would wait.
    if not hang and not busy:
        checks.append(collective.check(targets, level.all_reduce))
        checks += infiniband.check(targets, level.all_reduce) if network else ()
        checks += dcgm.check(level.dcgm_level, level.dcgm_limit, targets)
    return Report(
        level=level.number,
        devices=[target.model for target in targets],
        gpus=[{"uuid": target.uuid, "bus_id": target.bus_id} for target in targets if target.uuid],
        seconds=time.monotonic() - began,
        checks=checks,
    )


def _each(
    targets: Sequence[DeviceUnderTest], level: Level, work: Work
) -> tuple[list[DeviceCheck], dict[str, str]]:
    """Return what each device said, and the fingerprints of their products by UUID."""
    context = get_context("spawn")
    link = context.Lock()
    said = [context.Queue() for _ in targets]
    children = [
        context.Process(target=work, args=(target, level, link, queue), daemon=True)
        for target, queue in zip(targets, said, strict=True)
    ]
    for child in children:
        child.start()
    # The shared link makes them wait for each other.
    limit = level.limit + 2 * level.bandwidth * len(targets)
    began = time.monotonic()
    checks: list[DeviceCheck] = []
    fingerprints: dict[str, str] = {}
    for target, queue, child in zip(targets, said, children, strict=True):
        while True:
            try:
                one = queue.get(timeout=LOOK_EVERY_SECONDS)
            except Empty:
                took, starved = time.monotonic() - began, starved_seconds(child.pid)
                if child.is_alive() and took < limit + min(starved, MOST_STARVED * limit):
                    continue
                # What it said at its very end may still be on its way.
                if not child.is_alive() and not queue.empty():
                    continue
                checks.append(_silent(target, child.exitcode, took - starved < limit, starved))
                break
            if one == one_device.ENDED:
                break
            if isinstance(one, DeviceCheck):
                checks.append(one)
            else:
                fingerprints[target.uuid or str(target.index)] = one[1]
        # One in the driver's uninterruptible sleep does not even end by this; it is not waited for.
        child.kill()
    return checks, fingerprints


def _silent(target: DeviceUnderTest, status: int | None, is_starved: bool, starved: float) -> DeviceCheck:
    if status is None and is_starved:
        words = f"It could not be checked: its process waited {starved:.0f} s for a CPU of the machine."
        return target.check("answers", CheckOutcome.INCONCLUSIVE, words)
    if status is None:
        words = "It did not answer in time: a hang of the GPU or of its driver. Look at the kernel's log."
    else:
        words = f"Its process ended with status {status} before it had said everything."
    return target.check("answers", CheckOutcome.FAILED, words)


def odd_ones(targets: Sequence[DeviceUnderTest], fingerprints: dict[str, str]) -> list[DeviceCheck]:
    """Among three or more of one model, who computes otherwise than the majority, each time the same."""
    by_model: dict[str, list[DeviceUnderTest]] = defaultdict(list)
    for target in targets:
        if target.uuid in fingerprints:
            by_model[target.model].append(target)
    found = []
    for model, alike in by_model.items():
        usual, votes = Counter(fingerprints[one.uuid] for one in alike).most_common(1)[0]
        if 2 * votes <= len(alike) or votes == len(alike):
            continue
        found += [
            one.check(
                "same_as_others",
                CheckOutcome.FAILED,
                f"Its products differ from those of {votes} other {model} of this machine.",
            )
            for one in alike
            if fingerprints[one.uuid] != usual
        ]
    return found
