"""From a person's click to the split that requests really see: `python -m perf.release [--releases 10]`.

Against a running stack (`bin/up --sample`, after its approval): releases the two versions of a service by
turns, and approves one and aborts the next, over the public REST API; what was approved is rolled back while
the workers of the version before are kept warm. Meanwhile short requests go through the gateway. The old
side's last answer is of a request that was sent after the click: 0 ms is the best. Required are no lost
request, and a bound for the time from the click to the new split beside that of a read over REST in the same
run. Exits with 1 when one does not hold.
"""

import argparse
import asyncio
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perf.gateway import spread
from perf.load import LoopingClients
from perf.required import RequiredFigure, at_most, report
from slipway.client import Client, Document, ServerRefused, at

PLAN = "perf-click"
STEPS: list[dict[str, Any]] = [
    {"kind": "deploy", "share_percent": 100, "ready_within_seconds": 600},
    {"kind": "weight", "percent": 50},
    {"kind": "approval", "timeout_seconds": 600, "separate_requester": False},
    {"kind": "promote"},
]
BAKE_SECONDS = 120
READS = 5
"""Over REST before each click."""
READS_UNTIL_SPLIT = 60.0
"""The new split comes within as long as so many reads over REST one after the other, medians."""
ENDED = ("promoted", "aborted", "rolled_back", "rejected", "failed", "stuck")


@dataclass(frozen=True, slots=True)
class ClickTimes:
    """Times of what followed one click, in milliseconds from the moment its request was sent."""

    answered: float
    first_new_split: float
    """The first request that was sent after which none went to the side that lost its traffic."""
    state_shown: float
    """REST shows the release's last state."""
    to_loser: int
    """Requests sent after the click that still went to the side that lost its traffic."""
    sent: int
    """Requests in all until the first that saw the new split."""


@dataclass(frozen=True, slots=True)
class ReleaseBench:
    client: Client
    service: str
    versions: tuple[str, str]
    load: LoopingClients
    reads: list[float]
    """Milliseconds of a read over REST."""


def prepare(client: Client, service: str, versions: tuple[str, str]) -> None:
    body = {"description": "For perf/release.py.", "steps": STEPS, "bake_seconds": BAKE_SECONDS}
    try:
        client.create(at("plans"), {"name": PLAN, "body": body})
    except ServerRefused as refused:
        if refused.status != 409:
            raise
        client.put(at("plans", PLAN), {"body": body})
    seen = client.get(at("services", service))
    if seen["release_in_motion"] is not None:
        raise SystemExit(f"Release {seen['release_in_motion']} of {service} is in motion: decide it first.")
    if seen["stable"] not in versions:
        raise SystemExit(f"{service} serves {seen['stable']}, which is none of {' and '.join(versions)}.")


async def wait_for(client: Client, release: Document, *states: str, within: float) -> Document:
    deadline = time.perf_counter() + within
    while True:
        seen = await asyncio.to_thread(client.get, at("releases", release["id"]))
        if seen["state"] in states:
            return seen
        if seen["state"] in ENDED or time.perf_counter() > deadline:
            raise SystemExit(f"Release {release['id']} is {seen['state']}: {seen['outcome']}")
        await asyncio.sleep(0.02)


async def one(stage: ReleaseBench, *, approve: bool) -> ClickTimes:
    client = stage.client
    stable = (await asyncio.to_thread(client.get, at("services", stage.service)))["stable"]
    candidate = next(version for version in stage.versions if version != stable)
    wish = {"service": stage.service, "version": candidate, "plan": PLAN, "reason": "perf", "bypass": "perf"}
    release = await asyncio.to_thread(client.create, at("releases"), wish)
    await wait_for(client, release, "waiting_approval", within=600)
    await asyncio.sleep(1)
    loser = stable if approve else candidate
    return await click(
        stage,
        release,
        "approve" if approve else "abort",
        until="promoted" if approve else "aborted",
        loser=loser,
    )


async def roll_back(stage: ReleaseBench) -> ClickTimes:
    """The release that serves, while it bakes."""
    client = stage.client
    listed = await asyncio.to_thread(client.get, at("releases"), service=stage.service, state="promoted")
    release = listed["results"][0]
    if release["bake_until"] is None:
        raise SystemExit(f"Release {release['id']} keeps no workers warm.")
    return await click(stage, release, "rollback", until="promoted", loser=release["version"])


async def click(stage: ReleaseBench, release: Document, verb: str, *, until: str, loser: str) -> ClickTimes:
    client, load = stage.client, stage.load
    for _ in range(READS):
        asked_at = time.perf_counter()
        await asyncio.to_thread(client.get, at("releases", release["id"]))
        stage.reads.append((time.perf_counter() - asked_at) * 1000)
    clicked_at = time.perf_counter()
    answer = await asyncio.to_thread(client.post, at("releases", release["id"], verb), {"reason": "perf"})
    answered_at = time.perf_counter()
    await wait_for(client, answer, until, within=60)
    shown_at = time.perf_counter()
    await asyncio.sleep(1)
    after = [answer for _, answer in load.answers if answer.sent_at >= clicked_at]
    last = max((answer.sent_at for answer in after if answer.version == loser), default=clicked_at)
    new = min(answer.ended_at for answer in after if answer.sent_at > last)
    return ClickTimes(
        *((moment - clicked_at) * 1000 for moment in (answered_at, new, shown_at)),
        to_loser=sum(answer.version == loser for answer in after),
        sent=sum(answer.sent_at <= last for answer in after),
    )


async def measure(stage: ReleaseBench, releases: int) -> dict[str, list[ClickTimes]]:
    stage.load.add(f"/{stage.service}/v1/models", clients=4, pause_ms=10)
    clicks: dict[str, list[ClickTimes]] = {"approve": [], "rollback": [], "abort": []}

    def note(name: str, seen: ClickTimes) -> None:
        clicks[name].append(seen)
        print(f"{number + 1}/{releases} {name}: new split after {seen.first_new_split:.0f} ms", flush=True)

    for number in range(releases):
        name = "abort" if number % 2 else "approve"
        note(name, await one(stage, approve=name == "approve"))
        if name == "approve":
            note("rollback", await roll_back(stage))
    await stage.load.finish()
    return clicks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--releases", type=int, default=10)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--gateway-port", type=int, default=8080)
    parser.add_argument("--home", type=Path, default=Path("var"), help="SLIPWAY_HOME, for its admin-token")
    parser.add_argument("--service", default="docs")
    parser.add_argument("--versions", nargs=2, default=("docstring-writer:v1", "docstring-writer:v2"))
    options = parser.parse_args()
    client = Client(options.url, (options.home / "admin-token").read_text().strip())
    versions = (options.versions[0], options.versions[1])
    prepare(client, options.service, versions)
    load = LoopingClients(options.gateway_port)
    stage = ReleaseBench(client, options.service, versions, load, [])
    clicks = asyncio.run(measure(stage, options.releases))
    rows = [
        RequiredFigure("requests meanwhile", str(len(load.answers))),
        at_most("requests lost", len(load.failures), 0),
        RequiredFigure("a read over REST takes", spread(stage.reads)),
    ]
    read = statistics.median(stage.reads)
    for name, seen in clicks.items():
        if seen:
            shown = [click.state_shown for click in seen]
            split = [click.first_new_split for click in seen]
            old, sent = sum(click.to_loser for click in seen), sum(click.sent for click in seen)
            rows += [
                RequiredFigure(f"{name}: the call answers after", spread([click.answered for click in seen])),
                RequiredFigure(f"{name}: all requests on one side after", spread(split)),
                RequiredFigure(f"{name}: REST shows the last state after", spread(shown)),
                RequiredFigure(f"{name}: requests until then, of them to the old side", f"{sent}, {old}"),
                at_most(
                    f"{name}: click to split / a read", statistics.median(split) / read, READS_UNTIL_SPLIT
                ),
            ]
    sys.exit(report(rows))


if __name__ == "__main__":
    main()
