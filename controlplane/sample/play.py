"""Plays the main job over the public REST API: two versions of a real small model, a service with traffic
on it, and a canary release that stops where a person is needed.

Everything it makes is looked for first, so that a second start goes on where the first one stood.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2

from controlplane.sample.failure import SampleFailed
from controlplane.sample.place import SampleTarget
from controlplane.sample.stories import TEXT, TIDE, TRANSLATE, SampleStory
from controlplane.sample.tide.lending import lend
from slipway.client import ApiPath, Client, Document, ServerRefused, at

FIRST_TEAM = "default"
PLAN = "canary-quick"
POLL_SECONDS = 0.5
EXEMPT_DAYS = 90
ENDED = ("promoted", "rolled_back", "aborted", "rejected", "failed")


BENCHMARK: dict[str, Any] = {
    "name": "slots",
    "cluster": "local",
    "description": "How many requests a worker should work on at a time. The sample.",
    "scenario": {
        "arrivals": "concurrency",
        "rates": [1, 2, 4, 8],
        "requests": 90,
        "warm_up_requests": 4,
        "input": 24,
        "output": 16,
    },
    "spec": {
        "device": "cpu",
        "repeats": 5,
        "space": {"engines": ["transformers"], "parameters": {"slots": [1, 4]}},
    },
}
"""In a closed loop: on a busy machine of two cores an open one is sent late, and says so."""
POOL = "tide"
TIDE_LAW = {"hold_seconds": 30, "drain_seconds": 10}
"""Its tide turns within minutes, not within hours."""
TIDE_GROUPS = {"least_online": 1, "wait_seconds": 5, "latency_bound_ms": 2_000}


@dataclass(frozen=True, slots=True)
class SampleRun:
    """The place where the sample runs. `say` prints one line for the person at the terminal."""

    client: Client
    directory: Path
    """Where the trained versions lie; the server may import from it."""
    log: Path
    say: Callable[[str], None]
    place: Callable[[], SampleTarget]
    """Made ready when it is asked for."""
    story: SampleStory = TEXT


def play(sample: SampleRun, *, bad: bool) -> None:
    """Play up to the approval of version 2; with `bad`, until the judge has rolled version 3 back.

    Traffic goes on until the process is stopped.
    """
    began = time.monotonic()
    # Before the minute that the training takes: what is missing there is said at once.
    place = sample.place()
    train(sample, bad=bad)
    ensure_model(sample)
    for name in ("v1", "v2", *(["v3"] if bad else [])):
        ensure_version(sample, name)
    ensure_service(sample, place)
    if sample.story is TRANSLATE:
        _ensure_graph(sample, place)
    with traffic(sample, place):
        if bad:
            _release_bad(sample, place)
        else:
            release_until_approval(sample, place, "v2", "Trained to the end: better answers.")
        sample.say(f"The sample took {time.monotonic() - began:.0f} s. Traffic goes on until you stop it.")
        while True:
            time.sleep(60)


def _ensure_graph(sample: SampleRun, place: SampleTarget) -> None:
    """Make the graph as the service describes itself, so that its pages show what runs."""
    graph = httpx2.get(f"{place.gateway_url}/{place.service}/graph", timeout=30).json()
    name = graph["name"]
    row = next((one for one in sample.client.each(at("graphs"), q=name) if one["name"] == name), None)
    if row is None:
        team = sample.client.get(at("models", sample.story.model))["team"]
        body = {"name": name, "team": team, "version": f"{sample.story.model}:v1", "graph": graph}
        row = sample.client.create(at("graphs"), {**body, "description": sample.story.about})
    sample.say(f"Task graph {name}: {sample.client.url}/graphs/{row['id']}/")


def play_tide(sample: SampleRun) -> None:
    """Play a tide of requests over workers that work off jobs in between, until the process is stopped."""
    place = ready_tide(sample)
    with traffic(sample, place, "--exit-with-parent"):
        sample.say(f"The tide turns every four minutes: {sample.client.url}/capacity/")
        service = sample.client.get(at("services", place.service))
        plan = lend(sample.client, team=service["team"], cluster=service["cluster"])
        if plan is not None:
            sample.say(f"Training wants its machine back: {sample.client.url}/capacity/plans/{plan['id']}/")
        sample.say("Traffic goes on until you stop it.")
        while True:
            time.sleep(60)


def ready_tide(sample: SampleRun) -> SampleTarget:
    """Have the tide's service run in a pool that acts by itself, with groups."""
    place = sample.place()
    train(sample, bad=False)
    ensure_model(sample)
    ensure_version(sample, "v1")
    ensure_service(sample, place)
    pool = next((one for one in sample.client.each(at("capacity", "pools")) if one["name"] == POOL), None)
    if pool is None:
        service = sample.client.get(at("services", place.service))
        body = {
            "name": POOL,
            "team": service["team"],
            "cluster": service["cluster"],
            "workers": TIDE.replicas,
            "description": "Workers of the tide sample.",
        }
        pool = sample.client.create(at("capacity", "pools"), body)
    pools = at("capacity", "pools", pool["id"])
    share = {"guarantee": TIDE.replicas, "limit": TIDE.replicas}
    sample.client.put(at("capacity", "pools", pool["id"], "members", place.service), share)
    sample.client.put(at("capacity", "groups", place.service), TIDE_GROUPS)
    if not any(True for _ in sample.client.each(at("capacity", "policies"), service=place.service)):
        body = {"service": place.service, "law": TIDE_LAW, "reason": "A tide of minutes."}
        sample.client.create(at("capacity", "policies"), body)
    sample.client.patch(pools, {"mode": "automatic"})
    return place


def play_benchmark(sample: SampleRun) -> None:
    """Find how many slots serve version 2 best, up to the verdict: some minutes. One that ended is shown."""
    train(sample, bad=False)
    ensure_model(sample)
    ensure_version(sample, "v2")
    rows = sample.client.each(at("benchmarks"), q=BENCHMARK["name"])
    row = next((one for one in rows if one["state"] in ("running", "finished")), None)
    if row is None:
        taken = sum(1 for _ in sample.client.each(at("benchmarks"), q=BENCHMARK["name"]))
        name = f"{BENCHMARK['name']}-{taken + 1}"
        team = sample.client.get(at("models", sample.story.model))["team"]
        spec = {**BENCHMARK["spec"], "versions": [f"{sample.story.model}:v2"]}
        row = sample.client.create(at("benchmarks"), {**BENCHMARK, "name": name, "team": team, "spec": spec})
    page = f"{sample.client.url}/benchmarks/{row['id']}/"
    sample.say(f"Benchmark {row['name']}: {page}")
    address = at("benchmarks", row["id"])
    said: set[int] = set()

    def news(seen: Document) -> bool:
        for run in seen["result"]["runs"]:
            if run["ended_at"] and run["id"] not in said:
                said.add(run["id"])
                sample.say(f"  run {run['position']} is {run['state']} {run['reason']}".rstrip())
        return bool(seen["state"] in ("finished", "failed", "cancelled"))

    ended = follow(sample, address, news, within_seconds=1_800)
    if ended["state"] != "finished":
        raise SampleFailed(f"The benchmark is {ended['state']}: {ended['reason']}")
    conclusion = ended["result"]["conclusion"]
    best = next(cell for cell in ended["result"]["cells"] if cell["id"] == conclusion["best"])
    sample.say(f"Use {best['version']} with {_parameters(best)} (verdict: {conclusion['verdict']}): {page}")
    cells = {cell["id"]: cell for cell in ended["result"]["cells"]}
    for one in conclusion["cells"]:
        value = one["value"]
        known = value["low"] is not None
        interval = f", 95 % interval {value['low']:.3g} to {value['high']:.3g}" if known else ""
        line = f"  {_parameters(cells[one['cell']])}: {value['value']:.3g} requests/s{interval}"
        sample.say(f"{line}, {value['samples']} valid runs")


def _parameters(cell: Document) -> str:
    return " ".join(f"{name}={value}" for name, value in cell["parameters"].items())


def train(sample: SampleRun, *, bad: bool) -> None:
    sample.directory.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", sample.story.training, "--out", str(sample.directory)]
    sample.say(sample.story.training_about)
    with sample.log.open("ab") as log:
        done = subprocess.run([*command, *(["--bad"] if bad else [])], stdout=log, stderr=log, check=False)
    if done.returncode:
        raise SampleFailed(f"The training failed (exit {done.returncode}); {sample.log} says why.")


def ensure_model(sample: SampleRun) -> None:
    story = sample.story
    if found(sample.client, at("models", story.model)) is None:
        team = owning_team(sample.client)
        body = {"name": story.model, "task": story.task, "description": story.about, "team": team}
        sample.client.create(at("models"), body)
    if story.has_code:
        _ensure_exemption(sample)


def _ensure_exemption(sample: SampleRun) -> None:
    """Its versions carry the code of the service: somebody says that it may run."""
    team = sample.client.get(at("models", sample.story.model))["team"]
    known = sample.client.each(at("code-exemptions"), model=sample.story.model, in_force="true")
    if next(iter(known), None) is None:
        until = (datetime.now(UTC) + timedelta(days=EXEMPT_DAYS)).isoformat()
        body = {"team": team, "model": sample.story.model, "reason": "The sample's own code.", "until": until}
        sample.client.create(at("code-exemptions"), body)


def owning_team(client: Client) -> str:
    """Return the sample's team: the one that every installation begins with, while it is there."""
    names = [str(team["name"]) for team in client.each(at("teams"))]
    if not names:
        raise SampleFailed("There is no team that could own the sample: make one under Settings.")
    return FIRST_TEAM if FIRST_TEAM in names else names[0]


def ensure_version(sample: SampleRun, name: str) -> None:
    address = at("models", sample.story.model, "versions", name)
    version = found(sample.client, address)
    if version is None:
        body = {
            "source": str(sample.directory / name),
            "version": name,
            "message": sample.story.messages[name],
        }
        version = sample.client.create(at("models", sample.story.model, "versions"), body)
    version = follow(sample, address, lambda seen: seen["state"] != "importing", within_seconds=60)
    if version["state"] != "ready":
        raise SampleFailed(f"{sample.story.model}:{name} is {version['state']}: {version.get('reason', '')}")


def ensure_service(sample: SampleRun, place: SampleTarget, version: str = "v1") -> None:
    story = sample.story
    if found(sample.client, at("services", place.service)) is None:
        body = {
            "name": place.service,
            "team": sample.client.get(at("models", sample.story.model))["team"],
            "model": sample.story.model,
            "version": version,
            "alias": "production",
            "engine": story.engine,
            "replicas": story.replicas,
            "plan": PLAN,
            "description": story.service_about,
        } | place.body
        sample.client.create(at("services"), body)
    sample.say(f"Starting {story.replicas} worker{'s' if story.replicas > 1 else ''}.")
    service = follow(
        sample,
        at("services", place.service),
        lambda seen: seen["stable"] is not None or seen["release_in_motion"] is None,
        within_seconds=600 if story.has_code else 180,
    )
    if service["stable"] is None:
        # Its release may have ended between the two looks that the document is made of.
        service = sample.client.get(at("services", place.service))
    if service["stable"] is None:
        last = sample.client.get(at("releases"), service=place.service)["results"][0]
        raise SampleFailed(f"The first version did not come up: {last['outcome']}")
    _wait_for_answer(place, story.ready_path, within_seconds=120)
    sample.say(f"{service['stable']} answers at {place.gateway_url}/{place.service}{story.shown_path}")


def _wait_for_answer(place: SampleTarget, path: str, *, within_seconds: float) -> None:
    """Wait for an answer: after a restart the version is stable while its workers still load."""
    deadline = time.monotonic() + within_seconds
    while time.monotonic() < deadline:
        with suppress(httpx2.HTTPError):
            if httpx2.get(f"{place.gateway_url}/{place.service}{path}", timeout=5).status_code == 200:
                return
        time.sleep(POLL_SECONDS)
    raise SampleFailed(f"{place.service} does not answer through the gateway after {within_seconds:.0f} s.")


def release_until_approval(sample: SampleRun, place: SampleTarget, version: str, reason: str) -> None:
    service = sample.client.get(at("services", place.service))
    if service["release_in_motion"] is None and service["stable"] == f"{sample.story.model}:{version}":
        sample.say(f"{service['stable']} serves already. Another round: add --bad")
        return
    release = _release(sample, service, version, reason)
    release = _follow_release(sample, release, until=("waiting_approval", *ENDED))
    if release["state"] != "waiting_approval":
        raise SampleFailed(f"The release is {release['state']}: {release['outcome']}")
    weights = release["weights"]
    sample.say(f"Waiting for your approval: {release['url']}")
    sample.say(
        f"  {release['version']} gets {weights['desired']['candidate']} % of the traffic "
        f"(observed {weights['observed']['candidate']} % of {weights['requests']} requests)."
    )
    sample.say(f"  or: slipway release approve {release['id']} --reason '...' --wait")


def _release_bad(sample: SampleRun, place: SampleTarget) -> None:
    service = sample.client.get(at("services", place.service))
    release = _release(sample, service, "v3", "A version that is slow and fails: the judge should notice.")
    release = _follow_release(sample, release, until=("waiting_approval", *ENDED))
    sample.say(f"Release {release['id']} is {release['state']}: {release['outcome']}")
    sample.say(f"  {release['url']}")
    if release["state"] not in ("rolled_back", "failed"):
        raise SampleFailed("The bad version was not rolled back.")


def _release(sample: SampleRun, service: Document, version: str, reason: str) -> Document:
    """The release of `version`: the one in motion, or a new one."""
    if service["release_in_motion"] is not None:
        release = sample.client.get(at("releases", service["release_in_motion"]))
        if release["version"] != f"{sample.story.model}:{version}":
            raise SampleFailed(
                f"Release {release['id']} of {release['version']} comes first: {release['url']}"
            )
        return release
    body = {"service": service["name"], "version": version, "plan": PLAN, "reason": reason}
    return sample.client.create(at("releases"), body)


def _follow_release(sample: SampleRun, release: Document, *, until: tuple[str, ...]) -> Document:
    sample.say(f"Release {release['id']} of {release['version']}: {release['url']}")
    said: set[int] = set()

    def news(seen: Document) -> bool:
        for step in seen["steps"]:
            if step["state"] == "running" and step["index"] not in said:
                said.add(step["index"])
                sample.say(f"  {step['index'] + 1}/{len(seen['steps'])} {step['title']}")
        return seen["state"] in until

    return follow(sample, at("releases", release["id"]), news, within_seconds=600)


def follow(
    sample: SampleRun, address: ApiPath, is_enough: Callable[[Document], bool], *, within_seconds: float
) -> Document:
    deadline = time.monotonic() + within_seconds
    while not is_enough(seen := sample.client.get(address)):
        if time.monotonic() > deadline:
            raise SampleFailed(f"{address.path} is still {seen.get('state')} after {within_seconds:.0f} s.")
        time.sleep(POLL_SECONDS)
    return seen


def found(client: Client, address: ApiPath) -> Document | None:
    try:
        return client.get(address)
    except ServerRefused as refused:
        if refused.status == 404:
            return None
        raise


@contextmanager
def traffic(sample: SampleRun, place: SampleTarget, *options: str) -> Iterator[None]:
    """Traffic as a process of its own, for as long as the sample lasts; steady and light unless it is told
    otherwise."""
    command: list[Any] = [sys.executable, "-m", sample.story.traffic]
    command += ["--url", f"{place.gateway_url}/{place.service}"]
    command += options or ("--rps", str(sample.story.requests_per_second), "--exit-with-parent")
    with sample.log.open("ab") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield
        finally:
            process.terminate()
