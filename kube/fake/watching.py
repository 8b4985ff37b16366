"""Watches: what changes after a revision, as each watcher's selector sees it."""

from typing import Any

from kube.fake.reading import as_served, check_watch_version, selection
from kube.fake.refusals import RequestRefused, invalid_options, not_allowed
from kube.fake.storage import HistoryExpired, ObjectStorage, StoredChange
from kube.fake.wire import ApiRequest, RequestTarget

Object = dict[str, Any]
Event = dict[str, Any]
BOOKMARK_SECONDS = 60.0
INITIAL_END = "k8s.io/initial-events-end"
EMPTY_IN_BOOKMARKS = {"Pod": {"spec": {"containers": None}, "status": {}}}


def is_watch(request: ApiRequest) -> bool:
    """Any value is, but `false` and `0`."""
    return request.query.get("watch", "0") not in ("0", "false") or request.path.split("/")[3:4] == ["watch"]


class WatchStream:
    """`events` gives what has happened since it was last asked; `has_ended` says that no more will come."""

    def __init__(self, storage: ObjectStorage, target: RequestTarget, request: ApiRequest) -> None:
        """Raises RequestRefused."""
        query = request.query
        check_watch_options(request)
        self._storage = storage
        self._target = target
        self._matches = selection(target.kind, request)
        self._wants_bookmarks = query.get("allowWatchBookmarks") == "true"
        self._began = self._last_bookmark = storage.seconds()
        self.limit_seconds = float(query.get("timeoutSeconds") or 0)
        """0: the server's own."""
        self.has_ended = False
        self._first: list[Event] = []
        version = query.get("resourceVersion", "")
        is_list = query.get("sendInitialEvents") == "true"
        with storage.lock:
            self._at = check_watch_version(version) if version else 0
            if is_list or self._at == 0:
                self._at = storage.revision
                self._first = [
                    self._event("ADDED", item)
                    for item in storage.items(target.kind, target.namespace)
                    if self._matches(item)
                ]
                if is_list and self._wants_bookmarks:
                    self._first.append(self._bookmark(annotations={INITIAL_END: "true"}))

    def events(self) -> list[Event]:
        found, self._first = self._first, []
        if self.has_ended:
            return found
        with self._storage.lock:
            try:
                for change in self._storage.changes(
                    self._target.kind.resource, self._target.namespace, self._at
                ):
                    if event := self._seen(change):
                        found.append(event)
            except HistoryExpired:
                self.has_ended = True
                return [*found, self._too_old()]
            self._at = max(self._at, self._storage.revision)
        now = self._storage.seconds()
        is_over = bool(self.limit_seconds) and now >= self._began + self.limit_seconds
        is_due = now >= self._last_bookmark + BOOKMARK_SECONDS
        if self._wants_bookmarks and (is_over or is_due):
            self._last_bookmark = now
            found.append(self._bookmark())
        self.has_ended = is_over
        return found

    def end(self) -> list[Event]:
        """Its time is over."""
        found = self.events()
        if self.has_ended:
            return found
        self.has_ended = True
        return [*found, self._bookmark()] if self._wants_bookmarks else found

    def _seen(self, change: StoredChange) -> Event | None:
        before = change.before is not None and self._matches(change.before)
        after = change.after is not None and self._matches(change.after)
        if change.after is None:
            return self._event("DELETED", change.before or {}) if before else None
        if before and after:
            return self._event("MODIFIED", change.after)
        if after:
            return self._event("ADDED", change.after)
        if not before or change.before is None:
            return None
        # As it was when the watcher last saw it, under the version of the change.
        metadata = change.before["metadata"] | {"resourceVersion": str(change.revision)}
        return self._event("DELETED", change.before | {"metadata": metadata})

    def _event(self, kind: str, item: Object) -> Event:
        return {"type": kind, "object": as_served(item, self._target)}

    def _bookmark(self, annotations: dict[str, str] | None = None) -> Event:
        kind = self._target.kind
        metadata: Object = {"resourceVersion": str(self._at)}
        if annotations:
            metadata["annotations"] = annotations
        item = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
        return {"type": "BOOKMARK", "object": item | EMPTY_IN_BOOKMARKS.get(kind.kind, {})}

    def _too_old(self) -> Event:
        said = f"too old resource version: {self._at} ({self._storage.oldest})"
        return {"type": "ERROR", "object": RequestRefused(410, "Expired", said).body()}


def check_watch_options(request: ApiRequest) -> None:
    query = request.query
    place, match = "resourceVersionMatch", query.get("resourceVersionMatch")
    if "sendInitialEvents" in query and match != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise invalid_options("ListOptions", not_allowed(place, why))
    if match and "sendInitialEvents" not in query:
        why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        raise invalid_options("ListOptions", not_allowed(place, why))
