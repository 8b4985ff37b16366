"""Sends what a real API server was once asked to the fake, and says where the two answers differ.

What each server makes up itself (uids, resourceVersions, generated names, times) is learnt from the
answers, and
put into the requests that follow.
"""

import gzip
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from kube.fake.cluster import SimulatedCluster
from kube.fake.watching import WatchStream
from kube.fake.wire import ADMIN, ANONYMOUS, UNKNOWN, ApiRequest, ApiResponse, RequestUser
from tests.kube.comparable import (
    briefly,
    by_manager,
    collapsed,
    is_time,
    told_differently,
    without_controllers,
)

RECORDED = Path(__file__).parent / "recorded"
USERS = {"admin": ADMIN, "anonymous": ANONYMOUS}
MADE_UP = {
    "time",
    "creationTimestamp",
    "deletionTimestamp",
    "lastTransitionTime",
    "lastUpdateTime",
    "clusterIP",
} | {
    "clusterIPs",
    "renewTime",
    "remainingItemCount",
    "startTime",
    "completionTime",
    "lastProbeTime",
    "timeAdded",
}
"""Not compared."""
PACED = (
    *("/pods", "/deployments", "/replicasets", "/namespaces", "/poddisruptionbudgets"),
    *("/statefulsets", "/jobs", "/nodes", "/leases"),
)
GENERATED = ("uid", "pod-template-hash", "controller-revision-hash")
FURNITURE = {"kube-root-ca.crt", "openshift-service-ca.crt"}
"""In every namespace of the recorded cluster."""


@dataclass(frozen=True)
class Step:
    topic: str
    number: int
    seconds: float
    note: str
    request: dict[str, Any]
    response: dict[str, Any]

    @property
    def is_watch(self) -> bool:
        return "stream" in self.response

    @property
    def key(self) -> str:
        return f"{self.topic}/{self.number}"

    def __str__(self) -> str:
        return f"{self.key} {self.note}"


def steps_of(topic: str) -> list[Step]:
    """Return the steps of a file, in the order in which they began; a file holds several scripts, each with
    its own time.
    """
    path = next(RECORDED.glob(f"{topic}_*.jsonl.gz"))
    scripts: list[list[Step]] = [[]]
    latest = 0.0
    for line in gzip.decompress(path.read_bytes()).decode().splitlines():
        one = json.loads(line)
        step = Step(topic, one["step"], one["t"], one["note"], one["request"], one["response"])
        # A watch was written down when it ended.
        written = step.seconds + (ends_after(step) if step.is_watch else 0.0)
        if written < latest - 2:
            scripts.append([])
        latest = written
        scripts[-1].append(step)
    return [step for script in scripts for step in sorted(script, key=lambda one: one.seconds)]


Happening = tuple[float, Callable[[SimulatedCluster], None]]


@dataclass
class Replay:
    """A fake that a topic's requests are sent to."""

    server: SimulatedCluster
    names: dict[str, str] = field(default_factory=dict)
    """What the recording calls something -> what the fake does."""
    versions: dict[str, str] = field(default_factory=dict)
    at_seconds: float = 0.0
    happenings: list[list[Happening]] = field(default_factory=list)
    """What happened to the machines meanwhile: of each script, by its seconds."""

    def differences(self, step: Step) -> list[str]:
        answer = self.server.handle(self.request_of(step))
        assert isinstance(answer, ApiResponse)
        wanted = dict(step.response)
        if step.is_watch:
            wanted["body"] = wanted["stream"][0]["event"]
        found = (
            [f"status: {answer.status} instead of {wanted['status']}"]
            if answer.status != wanted["status"]
            else []
        )
        body = json.loads(json.dumps(answer.body))
        for one in (body, wanted.get("body")):
            if isinstance(one, dict) and isinstance(one.get("items"), list):
                one["items"] = [item for item in one["items"] if not is_furniture(item)]
        if found:
            return [*found, f"it said: {str(body)[:600]}"]
        found += [
            f"{name}: {answer.headers.get(name)!r} instead of {wanted['headers'].get(name)!r}"
            for name in ("warning", "retry-after")
            if answer.headers.get(name) != wanted["headers"].get(name)
        ]
        if is_of_events(step):
            return told_differently(wanted.get("body") or {}, body)
        self.learn_names(wanted.get("body"), body)
        recorded = json.loads(self._text(inflated(json.dumps(wanted.get("body")))))
        found += self.compared(recorded, body)
        if step.request["method"] == "GET" and any(one in step.request["path"] for one in PACED):
            found = [one for one in found if ".resourceVersion" not in one.split(":")[0]]
        self.learn_versions(wanted.get("body"), body)
        return found

    def pass_time(self, seconds: float) -> None:
        """Controllers have the time that they had then; a new script begins at once."""
        if seconds < self.at_seconds:
            self.at_seconds = seconds
            self.happenings = self.happenings[1:]
        due = self.happenings[0] if self.happenings else []
        while due and due[0][0] <= seconds:
            at, happen = due.pop(0)
            self._advance(at)
            happen(self.server)
        self._advance(seconds)

    def _advance(self, seconds: float) -> None:
        if seconds > self.at_seconds:
            self.server.advance(seconds - self.at_seconds)
        self.at_seconds = max(seconds, self.at_seconds)

    def begin(self, step: Step) -> WatchStream | None:
        """A watch; None when it was refused, which `refusal` has the differences of."""
        answer = self.server.handle(self.request_of(step))
        return answer if isinstance(answer, WatchStream) else None

    def end(self, step: Step, watch: WatchStream) -> list[str]:
        """Return the differences of a watch, at the time when the recorded one ended."""
        watch.limit_seconds = 0.0
        told = [json.loads(json.dumps(one)) for one in watch.events() if not is_furniture(one["object"])]
        wanted = [one["event"] for one in step.response["stream"]]
        wanted = [one for one in wanted if not is_furniture(one["object"])]
        if is_of_events(step):
            return told_differently(
                {"items": [one["object"] for one in wanted]}, {"items": [one["object"] for one in told]}
            )
        if is_of_controllers(step):
            told, wanted = collapsed(told), collapsed(json.loads(self._text(json.dumps(wanted))))
            return [] if told == wanted else [f"told {told} instead of {wanted}"]
        kept = [one for one in told if one["type"] != "BOOKMARK"]
        wanted = [one for one in wanted if one["type"] != "BOOKMARK"]
        if len(kept) != len(wanted):
            return [f"told {briefly(kept)} instead of {briefly(wanted)}"]
        found: list[str] = []
        for one, other in zip(wanted, kept, strict=True):
            self.learn_names(one, other)
            found += self.compared(json.loads(self._text(json.dumps(one))), other)
            self.learn_versions(one, other)
        return found

    def request_of(self, step: Step) -> ApiRequest:
        asked = step.request
        self._meet(asked["path"])
        body = asked.get("body")
        data = b"" if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
        if isinstance(body, dict):
            data = json.dumps(self._translated(body)).encode()
        query = dict(parse_qsl(asked["query"], keep_blank_values=True))
        for key in ("resourceVersion", "continue"):
            if key in query:
                query[key] = self._version(query[key])
        query = {key: self._text(value) for key, value in query.items()}
        user = user_of(asked["user"], asked["path"])
        return ApiRequest(asked["method"], self._text(asked["path"]), query, asked["headers"], data, user)

    def _meet(self, path: str) -> None:
        """A generated name that no answer has told yet: whichever pod of that controller is still free."""
        found = re.search(r"/namespaces/([^/]+)/pods/((.+)-[a-z0-9]+-[a-z0-9]{5})(/|$)", path)
        if not found or found[2] in self.names or self._text(found[2]) in self._pods(found[1]):
            return
        beginning = f"{found[3]}-"
        met = set(self.names.values())
        free = [one for one in self._pods(found[1]) if one not in met and one.startswith(beginning)]
        if free:
            self.names[found[2]] = free[0]

    def _pods(self, namespace: str) -> list[str]:
        """The oldest first."""
        held = [one["metadata"] for one in self.server.storage.items(self.server.kind_of("pods"), namespace)]
        return [one["name"] for one in sorted(held, key=lambda one: str(one["creationTimestamp"]))]

    def _translated(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: self._translated(inner, name) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._translated(inner, key) for inner in value]
        if not isinstance(value, str):
            return value
        return self._version(value) if key == "resourceVersion" else self._text(inflated(value))

    def _version(self, text: str) -> str:
        return self.versions.get(text, text)

    def _text(self, text: str) -> str:
        for old in sorted(self.names, key=len, reverse=True):
            text = text.replace(old, self.names[old])
        return text

    def learn_names(self, wanted: Any, found: Any) -> None:
        """Learn new names; a known name must be the same again."""
        if isinstance(wanted, dict) and isinstance(found, dict):
            is_generated = "generateName" in wanted
            for key, value in wanted.items():
                other = found.get(key)
                if key in GENERATED or (key == "name" and is_generated):
                    if isinstance(other, str) and value != other:
                        self.names.setdefault(value, other)
                else:
                    self.learn_names(value, other)
        elif isinstance(wanted, list) and isinstance(found, list):
            for one, other in zip(wanted, found, strict=False):
                self.learn_names(one, other)

    def learn_versions(self, wanted: Any, found: Any) -> None:
        if isinstance(wanted, dict) and isinstance(found, dict):
            for key, value in wanted.items():
                other = found.get(key)
                if key in ("resourceVersion", "continue") and isinstance(other, str):
                    if value not in ("", "0"):
                        self.versions[value] = other
                else:
                    self.learn_versions(value, other)
        elif isinstance(wanted, list) and isinstance(found, list):
            for one, other in zip(wanted, found, strict=False):
                self.learn_versions(one, other)

    def compared(self, wanted: Any, found: Any, path: str = "") -> Iterator[str]:
        key = re.split(r"[.\[]", path)[-1]
        if key in MADE_UP:
            return
        if path.endswith("managedFields") and wanted and found:
            wanted, found = by_manager(wanted), by_manager(found)
        wanted, found = without_controllers(wanted), without_controllers(found)
        if isinstance(wanted, dict) and isinstance(found, dict):
            wanted = {name: one for name, one in wanted.items() if one is not None}
            found = {name: one for name, one in found.items() if one is not None}
            for name in sorted(wanted.keys() | found.keys()):
                below = f"{path}.{name}" if path else name
                if name in MADE_UP or (name == "name" and "generateName" in wanted):
                    continue
                if name not in found:
                    yield f"{below}: missing, should be {str(wanted[name])[:300]}"
                elif name not in wanted:
                    yield f"{below}: {str(found[name])[:300]} should not be there"
                else:
                    yield from self.compared(wanted[name], found[name], below)
        elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
            for index, (one, other) in enumerate(zip(wanted, found, strict=True)):
                yield from self.compared(one, other, f"{path}[{index}]")
        elif isinstance(wanted, str) and isinstance(found, str):
            if key == "resourceVersion" or key == "continue":
                if self.versions.get(wanted, found) != found:
                    yield f"{path}: {found} instead of {self._version(wanted)} (recorded {wanted})"
            elif key == "uid":
                if wanted in self.names.values() and wanted != found:
                    yield f"{path}: {found} instead of {wanted}"
            elif self._plain(wanted).strip() != found.strip() and not is_time(wanted, found):
                yield f"{path}: {found[:400]!r} instead of {self._plain(wanted)[:400]!r}"
        elif wanted != found:
            yield f"{path}: {str(found)[:300]} instead of {str(wanted)[:300]}"

    def _plain(self, text: str) -> str:
        """Replace the fake's names and versions in a message."""
        return re.sub(r"(?<=\()\d+(?=\))", lambda one: self._version(one[0]), text)


def is_furniture(item: dict[str, Any]) -> bool:
    return (item.get("metadata") or {}).get("name") in FURNITURE


def user_of(name: str, path: str) -> RequestUser:
    """A note behind a comma says why a token was no good."""
    if "," in name or "bogus" in name:
        return UNKNOWN
    if name.startswith("serviceaccount "):
        namespace = path.split("/namespaces/")[1].split("/")[0]
        return RequestUser(f"system:serviceaccount:{namespace}:{name.split()[1]}", ("system:authenticated",))
    if name == "limited":
        return RequestUser(name, ("slipway-users", "system:authenticated"), "limited-uid")
    return USERS.get(name) or RequestUser(name, ("system:authenticated",))


def ends_after(step: Step) -> float:
    """Seconds that a watch was open."""
    found = re.search(r"after ([\d.]+)s", step.response["ended"])
    return float(found[1]) if found else 0.0


def is_of_events(step: Step) -> bool:
    """Lists and watches of them."""
    return step.request["method"] == "GET" and step.request["path"].endswith("/events")


def is_of_controllers(step: Step) -> bool:
    """Tell whether a step concerns objects that controllers write as well, at a pace of their own."""
    return step.request["path"].endswith(PACED)


def inflated(text: str) -> str:
    """Long paddings are written `<x repeated N times>`."""
    return re.sub(r"<(.+?) repeated (\d+) times>", lambda one: (one[1] * int(one[2]))[: int(one[2])], text)
