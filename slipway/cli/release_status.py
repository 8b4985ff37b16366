"""The lines of `slipway release status`: step, weight, evidence, and what the release waits for."""

from collections.abc import Iterator
from typing import Any

from slipway.client import Client, Document, at


def release_named(client: Client, name: str) -> Document:
    """The release of this number, or the latest of the service of this name."""
    if name.isascii() and name.isdigit():
        return client.get(at("releases", int(name)))
    service = client.get(at("services", name))
    rows = client.get(at("releases"), service=service["name"], limit=1)["results"]
    if not rows:
        raise LookupError(f"{name} has no release yet.")
    return client.get(at("releases", rows[0]["id"]))


def status_lines(release: Document) -> Iterator[str]:
    """Nothing once it has ended."""
    if release["ended_at"] is not None:
        return
    steps = release["steps"]
    if step := next((one for one in steps if one["state"] == "running"), None):
        yield f"Step: {step['index'] + 1} of {len(steps)}, {step['title']}, since {step['started_at']}"
    yield _weight(release["weights"])
    yield from _evidence(release["verdict"])
    if clock := release["clock"]:
        answered = f"candidate {clock['candidate_requests']}, stable {clock['stable_requests']} requests"
        yield f"Clock: {clock['seconds']:.0f} s with both versions measured and ready, {answered}"
    yield f"Waiting for: {_waits_for(release, step)}"


def _weight(weights: Document) -> str:
    desired, observed = weights["desired"]["candidate"], weights["observed"]["candidate"]
    seen = "not measured" if observed is None else f"{observed:g} % of {weights['requests']} requests"
    return f"Weight: desired {desired} %, observed {seen}"


def _evidence(verdict: Document | None) -> Iterator[str]:
    if verdict is None:
        yield "Evidence: none yet"
        return
    yield f"Evidence: {verdict['decision']}. {verdict['reason']}"


def _waits_for(release: Document, step: Any) -> str:
    clock, waiting, held = release["clock"], release["waiting_for"], release["held"]
    if waiting:
        return f"{waiting['kind']}: {waiting['why']}, since {waiting['since']}"
    if release["paused_by"]:
        return f"resume, paused by {release['paused_by']}"
    if held:
        return f"machine {held['machine']} ({held['why']}), since {held['since']}"
    if clock and clock["stopped_since"]:
        return f"{clock['why']} The clock is stopped since {clock['stopped_since']}"
    return f"the end of {step['title']}" if step else "the next step"
