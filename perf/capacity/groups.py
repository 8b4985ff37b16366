"""Groups of a real service: `python -m perf.capacity groups --home var`, against a stack of `bin/up`.

The service of the tide sample runs with requests at a low rate, then at a step to a rate that needs all
workers, and low again; jobs always wait. Required are the switch time, no failed request, the same processes
throughout, the latency after the step, and jobs in nearly all of the time that the law leaves.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from controlplane.sample.place import SampleTarget
from controlplane.sample.play import SampleRun, ready_tide
from controlplane.sample.stories import TIDE
from controlplane.sample.tide.traffic import TIMEOUT_SECONDS, Tide
from perf.required import RequiredFigure, at_most, report
from slipway.client import Client, Document, at

LOW, HIGH = 4.0, 22.0
"""Requests a second; four workers of two processes at 0.2 s each answer 40."""
PHASES = ((LOW, 60.0), (HIGH, 60.0), (LOW, 90.0), (HIGH, 60.0), (LOW, 60.0))
BOUND_SECONDS = 2.0
LOOK_SECONDS = 0.5
SETTLE_SECONDS = 20.0
"""After a change of the rate, within which the groups are to follow."""


class Steps(Tide):
    """The rate of each phase."""

    def rate(self, at: float) -> float:
        for rate, seconds in PHASES:
            if at < seconds:
                return rate
            at -= seconds
        return PHASES[-1][0]


@dataclass
class Watched:
    """Observations of the service: worker-seconds, decisions by their moment, process ids."""

    left: float = 0.0
    at_jobs: float = 0.0
    unneeded: float = 0.0
    looks: int = 0
    switches: dict[str, Document] = field(default_factory=dict)
    processes: set[tuple[str, int]] = field(default_factory=set)

    def look(self, groups: Document, seconds: float) -> None:
        look = groups["look"]
        self.looks += 1
        self.left += (look["ready"] - look["wanted"]) * seconds
        self.at_jobs += min(look["jobs_running"], look["ready"] - look["wanted"]) * seconds
        self.unneeded += max(0.0, look["ready"] - look["need"]) * seconds
        for switch in groups["switches"]:
            self.switches[switch["at"]] = switch


def run(home: Path, url: str, gateway_url: str) -> int:
    client = Client(url, (home / "admin-token").read_text().strip())
    sample = SampleRun(
        client=client,
        place=lambda: SampleTarget(service=TIDE.service, gateway_url=gateway_url),
        directory=home / "imports" / TIDE.directory,
        log=home / "logs" / "sample.log",
        say=print,
        story=TIDE,
    )
    place = ready_tide(sample)
    return report(asyncio.run(_figures(client, f"{gateway_url}/{place.service}", lambda: _pids(client))))


def _pids(client: Client) -> set[tuple[str, int]]:
    found = client.each(at("deployments"), service=TIDE.service)
    return {(worker["name"], worker["pid"]) for row in found for worker in row["workers"]}


async def _figures(
    client: Client, url: str, pids: Callable[[], set[tuple[str, int]]]
) -> list[RequiredFigure]:
    tide, watched = Steps(url, low=LOW, high=HIGH, period=1), Watched()
    before = await asyncio.to_thread(pids)
    began = time.monotonic()
    async with httpx2.AsyncClient(timeout=TIMEOUT_SECONDS) as http:
        load = asyncio.create_task(tide.run(http))
        last = time.monotonic()
        while time.monotonic() - began < sum(seconds for _, seconds in PHASES):
            await asyncio.sleep(LOOK_SECONDS)
            groups = await asyncio.to_thread(client.get, at("capacity", "groups", TIDE.service))
            now = time.monotonic()
            # The first wait is for jobs to come.
            if groups["look"] and now - began > SETTLE_SECONDS:
                watched.look(groups, now - last)
            last = now
        load.cancel()
        await asyncio.gather(load, return_exceptions=True)
        await tide.until_answered()
    after = await asyncio.to_thread(pids)
    return _required(tide, watched, began, same=before == after)


def _required(tide: Steps, watched: Watched, began: float, *, same: bool) -> list[RequiredFigure]:
    took = sorted(one["seconds"] for one in watched.switches.values() if one["seconds"] is not None)
    step = began + PHASES[0][1]
    after_step = sorted(
        seconds for at_, seconds in tide.seconds if step + SETTLE_SECONDS < at_ < step + PHASES[1][1]
    )
    failed = sum(number for outcome, number in tide.outcomes.items() if outcome != "ok")
    share = watched.at_jobs / watched.left if watched.left else 0.0
    return [
        at_most("switch time P95, s", _p95(took), 10.0),
        RequiredFigure("decisions that were carried out", str(len(took)), "two or more", len(took) >= 2),
        at_most("failed requests", failed, 0),
        RequiredFigure("requests", str(sum(tide.outcomes.values()))),
        RequiredFigure("same processes", str(same), "True", same),
        at_most("latency P95 under the higher load, s", _p95(after_step), BOUND_SECONDS),
        RequiredFigure("jobs in what the law leaves", f"{share:.1%}", "at least 90 %", share >= 0.9),
        RequiredFigure("jobs in what the load leaves", f"{watched.at_jobs / watched.unneeded:.1%}"),
        RequiredFigure("jobs done", str(tide.jobs_done)),
    ]


def _p95(values: list[float]) -> float:
    return values[min(len(values) - 1, int(0.95 * len(values)))] if values else float("inf")
