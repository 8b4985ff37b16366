"""Sends what a real API server was once asked to the fake, and says where the two answers differ.

What each server makes up itself (uids, resourceVersions, generated names, times) is learnt from the
answers, and
put into the requests that follow.
"""

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from kube.fake.server import FakeApiServer
from kube.fake.wire import ADMIN, ANONYMOUS, Answer, Request, User

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

    def __str__(self) -> str:
        return f"{self.topic}/{self.number} {self.note}"


def steps_of(topic: str) -> list[Step]:
    """Of a file, in the order in which they began; a file holds several scripts, each with its own time."""
    path = next(RECORDED.glob(f"{topic}_*.jsonl.gz"))
    scripts: list[list[Step]] = [[]]
    latest = 0.0
    for line in gzip.decompress(path.read_bytes()).decode().splitlines():
        one = json.loads(line)
        step = Step(topic, one["step"], one["t"], one["note"], one["request"], one["response"])
        if not step.is_watch:
            if step.seconds < latest - 1:
                scripts.append([])
            latest = step.seconds
        scripts[-1].append(step)
    return [step for script in scripts for step in sorted(script, key=lambda one: one.seconds)]


@dataclass
class Replay:
    """One fake that a topic's requests are sent to."""

    server: FakeApiServer
    names: dict[str, str] = field(default_factory=dict)
    """What the recording calls something -> what the fake does."""
    versions: dict[str, str] = field(default_factory=dict)

    def differences(self, step: Step) -> list[str]:
        answer = self.server.handle(self.request_of(step))
        assert isinstance(answer, Answer)
        wanted = step.response
        found = (
            [f"status: {answer.status} instead of {wanted['status']}"]
            if answer.status != wanted["status"]
            else []
        )
        body = json.loads(json.dumps(answer.body))
        if found:
            return [*found, f"it said: {str(body)[:600]}"]
        found += [
            f"{name}: {answer.headers.get(name)!r} instead of {wanted['headers'].get(name)!r}"
            for name in ("warning", "retry-after")
            if answer.headers.get(name) != wanted["headers"].get(name)
        ]
        recorded = json.loads(self._text(json.dumps(wanted.get("body"))))
        found += self.compared(recorded, body)
        self.learn(wanted.get("body"), body)
        return found

    def request_of(self, step: Step) -> Request:
        asked = step.request
        body = asked.get("body")
        data = b"" if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
        if isinstance(body, dict):
            data = json.dumps(self._translated(body)).encode()
        query = dict(parse_qsl(asked["query"], keep_blank_values=True))
        for key in ("resourceVersion", "continue"):
            if key in query:
                query[key] = self._version(query[key])
        query = {key: self._text(value) for key, value in query.items()}
        user = USERS.get(asked["user"]) or User(asked["user"], ("system:authenticated",))
        return Request(asked["method"], self._text(asked["path"]), query, asked["headers"], data, user)

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
        for old, new in self.names.items():
            text = text.replace(old, new)
        return text

    def learn(self, wanted: Any, found: Any) -> None:
        if isinstance(wanted, dict) and isinstance(found, dict):
            for key, value in wanted.items():
                other = found.get(key)
                is_version = key in ("resourceVersion", "continue") and value not in ("", "0")
                if is_version and isinstance(other, str):
                    self.versions[value] = other
                elif (key == "uid" or (key == "name" and "generateName" in wanted)) and isinstance(
                    other, str
                ):
                    if value != other:
                        self.names[value] = other
                else:
                    self.learn(value, other)
        elif isinstance(wanted, list) and isinstance(found, list):
            for one, other in zip(wanted, found, strict=False):
                self.learn(one, other)

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
            elif self._plain(wanted) != found and not is_time(wanted, found):
                yield f"{path}: {found[:400]!r} instead of {self._plain(wanted)[:400]!r}"
        elif wanted != found:
            yield f"{path}: {str(found)[:300]} instead of {str(wanted)[:300]}"

    def _plain(self, text: str) -> str:
        """With the fake's names and versions in a message."""
        return re.sub(r"(?<=\()\d+(?=\))", lambda one: self._version(one[0]), text)


def by_manager(entries: list[dict[str, Any]]) -> dict[str, Any]:
    keys = ("manager", "operation", "apiVersion", "subresource")
    return {
        " ".join(str(one.get(key, "-")) for key in keys): one.get("fieldsV1")
        for one in entries
        if one.get("manager") not in CONTROLLERS
    }


CONTROLLERS = {"kube-controller-manager", "kube-scheduler", "kubelet", "cluster"}
REVISION = "deployment.kubernetes.io/revision"


def without_controllers(value: Any) -> Any:
    """Without what controllers write at a time of their own: it is looked at where they are what is tried."""
    if not isinstance(value, dict) or "metadata" not in value:
        return without_token(value)
    annotations = {
        key: one for key, one in (value["metadata"].get("annotations") or {}).items() if key != REVISION
    }
    metadata = {key: one for key, one in value["metadata"].items() if key != "annotations"}
    if annotations:
        metadata["annotations"] = annotations
    if not by_manager(metadata.get("managedFields") or []):
        metadata.pop("managedFields", None)
    result = value | {"metadata": metadata}
    if str(value.get("apiVersion", "")).startswith(("apps/", "batch/")):
        result.pop("status", None)
    return result


def without_token(value: Any) -> Any:
    """Without the volume of a pod's account token: the recorded one has a source of the fork's own."""
    if not isinstance(value, dict):
        return value
    result = dict(value)
    for key in ("volumes", "volumeMounts"):
        if isinstance(value.get(key), list):
            result[key] = [
                one for one in value[key] if not str(one.get("name")).startswith("kube-api-access-")
            ]
            if not result[key]:
                del result[key]
    return result


def is_time(wanted: str, found: str) -> bool:
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"
    return bool(re.fullmatch(stamp, wanted) and re.fullmatch(stamp, found))


def inflated(text: str) -> str:
    """Long paddings are written `<x repeated N times>`."""
    return re.sub(r"<(.) repeated (\d+) times>", lambda one: one[1] * int(one[2]), text)
