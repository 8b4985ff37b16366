"""A Kubernetes API server in memory: takes requests as HTTP has them, gives the answers that a real one gave.

What it does was recorded from kube-apiserver 1.36; `tests/kube/test_replay.py` sends it the recorded
requests.
Time stands still until `advance` moves it.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from kube.fake.admission import PRIORITY_CLASSES, Admission
from kube.fake.bodies import APPLY_PATCH, check_size
from kube.fake.clock import START, SimulatedClock
from kube.fake.deleting import Deleter
from kube.fake.events import EVENTS, Recorder
from kube.fake.evicting import Evictor
from kube.fake.kinds import BUILT_IN, ObjectKind
from kube.fake.reading import Reader
from kube.fake.refusals import RequestRefused, internal, wrong_method
from kube.fake.reviews import described, review
from kube.fake.rights import Rights, asked_for
from kube.fake.scale import scale_of
from kube.fake.storage import ObjectStorage
from kube.fake.verbs import Verbs
from kube.fake.watching import WatchStream, is_watch
from kube.fake.wire import UNKNOWN, ApiRequest, ApiResponse, RequestTarget, refusal, target_of
from kube.fake.writing import WriteOptions, Writer

Object = dict[str, Any]
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


class FakeApiServer:
    def __init__(
        self, *, seed: int = 1, kinds: Iterable[ObjectKind] = BUILT_IN, start: datetime = START
    ) -> None:
        self.clock = SimulatedClock(start)
        self.storage = ObjectStorage()
        self.storage.seconds = lambda: self.clock.seconds
        self.admission = Admission(self.storage)
        self.writer = Writer(self.storage, self.clock, self.admission, seed)
        self.reader = Reader(self.storage)
        self.deleter = Deleter(self.storage, self.clock, self.admission)
        self.doors = Verbs(self.writer, self.reader, self.deleter)
        self.rights = Rights(self.storage)
        self.evictor = Evictor(self.storage, self.clock, self.deleter)
        self.logs: dict[tuple[str, ...], str] = {}
        self.kinds: dict[tuple[str, str], ObjectKind] = {}
        for kind in kinds:
            self.add_kind(kind)
        self.events = Recorder(self.storage, self.clock, self.kind_of(EVENTS))
        for name in ("default", "kube-system", "kube-public", "kube-node-lease"):
            self.make("namespaces", {"metadata": {"name": name}})
        for name, value in SYSTEM_PRIORITIES.items():
            self.make(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})

    def add_kind(self, kind: ObjectKind) -> None:
        self.kinds[kind.group, kind.plural] = kind
        self.admission.kinds[kind.resource] = kind

    def kind_of(self, resource: str) -> ObjectKind:
        """Return the kind by `pods`, `deployments.apps`."""
        plural, _, group = resource.partition(".")
        return self.kinds[group, plural]

    def make(self, resource: str, item: Object, *, manager: str = "cluster") -> Object:
        """Something that is there before anybody asks. Raises RequestRefused."""
        kind = self.kind_of(resource)
        namespace = item["metadata"].get("namespace", "")
        return self.writer.create(kind, namespace, dict(item), WriteOptions(manager)).item

    def plant(self, resource: str, item: Object) -> Object:
        """Store an item as it is, with nothing checked or filled in."""
        return self.storage.put(self.kind_of(resource), item)

    def handle(self, request: ApiRequest) -> ApiResponse | WatchStream:
        """The whole answer, or a watch that goes on."""
        try:
            if request.user == UNKNOWN:
                raise RequestRefused(401, "Unauthorized", "Unauthorized")
            if self._is_of_objects(request.path):
                return self._handled(request)
            self.rights.check_path(request.user, request)
            if request.method != "GET":
                raise wrong_method()
            return ApiResponse(200, described(request.path, self.kinds.values()))
        except RequestRefused as refused:
            return refusal(refused)

    def _is_of_objects(self, path: str) -> bool:
        parts = path.strip("/").split("/")
        return (parts[0] == "api" and len(parts) > 2) or (parts[0] == "apis" and len(parts) > 3)

    def _handled(self, request: ApiRequest) -> ApiResponse | WatchStream:
        asked = asked_for(request)
        self.rights.check(request.user, asked)
        if (reviewed := review(request.path, request, self.rights, self.clock)) is not None:
            return reviewed
        check_size(request)
        target = target_of(request.path, request.method, self.kinds, {group for group, _ in self.kinds})
        is_apply = request.content_type == APPLY_PATCH and target.name and not target.subresource
        if is_apply and self.storage.get(target.kind, target.namespace, target.name) is None:
            self.rights.check(request.user, replace(asked, verb="create"))
        if request.method == "GET" and not target.name and is_watch(request):
            return WatchStream(self.storage, target, request)
        return self._door(target, request)(target, request)

    def _door(
        self, target: RequestTarget, request: ApiRequest
    ) -> Callable[[RequestTarget, ApiRequest], ApiResponse]:
        method, has_name = request.method, bool(target.name)
        if method == "GET":
            if not has_name:
                return lambda target, request: _json(self.reader.list(target, request))
            if target.subresource == "scale":
                return lambda target, request: _json(scale_of(target.kind, self.reader.get(target, request)))
            if target.subresource in ("", "status"):
                return lambda target, request: _json(self.reader.get(target, request))
            if target.subresource == "log":
                return self._log
        if method == "POST" and target.subresource == "eviction":
            budgets = self.kind_of("poddisruptionbudgets.policy")
            return lambda target, request: self.evictor.post(target, request, budgets)
        if method == "POST" and not has_name:
            return self.doors.post
        if method == "PUT" and has_name and target.subresource in ("", "status", "scale"):
            return self.doors.put
        if method == "PATCH" and has_name and target.subresource in ("", "status", "scale"):
            return self.doors.patch
        if method == "DELETE" and not target.subresource:
            return self.doors.delete if has_name else self.doors.delete_collection
        raise wrong_method()

    def _log(self, target: RequestTarget, request: ApiRequest) -> ApiResponse:
        """Return a pod's log by namespace and name, and by its container where they differ."""
        pod = self.reader.get(target, request)
        whose = (target.namespace, target.name)
        text = self.logs.get((*whose, request.query.get("container", "")), self.logs.get(whose))
        if text is None:
            node = pod["spec"].get("nodeName", "")
            raise internal(f'Get "https://{node}:10250/containerLogs/": dial tcp: connection refused')
        lines = text.splitlines(keepends=True)[-int(request.query.get("tailLines") or len(text)) :]
        return ApiResponse(200, "".join(lines)[-int(request.query.get("limitBytes") or len(text)) :])


def _json(body: Object) -> ApiResponse:
    return ApiResponse(200, json.loads(json.dumps(body)))
