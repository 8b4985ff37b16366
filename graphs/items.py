"""Items of a graph as its workers keep them, and their calls. Nothing of it is stored here."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.utils.translation import gettext as _

from graphs.errors import NotOfWorker
from graphs.models import Graph
from graphs.workers import GraphWorker, ask, ask_all, worker_named, workers_of

MOST_ITEMS = 200
LAST_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class GraphItem:
    """An item. id: worker and number. inputs: names of those that are kept; outputs: with their suffix."""

    id: str
    worker: str
    state: str
    arrived: datetime
    seconds: float
    reason: str
    retry_of: str
    inputs: tuple[str, ...]
    outputs: Mapping[str, str]

    @property
    def may_retry(self) -> bool:
        return self.state == "failed" and bool(self.inputs)


@dataclass(frozen=True, slots=True)
class GraphItems:
    """The newest items of all workers, and the workers that did not answer."""

    items: list[GraphItem]
    unheard: list[str]


def items_of(graph: Graph, state: str = "") -> GraphItems:
    query = {"state": state, "most": MOST_ITEMS}
    seen = ask_all(workers_of(graph), "/items", query=query)
    found = [_item(worker, one) for worker, answer in seen.items() for one in (answer or {}).get("items", ())]
    newest = sorted(found, key=lambda one: one.arrived, reverse=True)
    return GraphItems(newest[:MOST_ITEMS], [one.name for one, answer in seen.items() if answer is None])


def _item(worker: GraphWorker, one: Mapping[str, Any]) -> GraphItem:
    return GraphItem(
        id=f"{worker.name}:{one['item']}",
        worker=worker.name,
        state=one["state"],
        arrived=datetime.fromtimestamp(one["arrived"], UTC),
        seconds=one["seconds"],
        reason=one["reason"],
        retry_of=f"{worker.name}:{one['retry_of']}" if one["retry_of"] else "",
        inputs=tuple(one["inputs"]),
        outputs=one["outputs"],
    )


def located(graph: Graph, item: str) -> tuple[GraphWorker, int]:
    """Return worker and number of an item. Raises NotOfWorker."""
    worker, _colon, number = item.rpartition(":")
    if not number.isdecimal():
        raise NotOfWorker(_("%(item)s is no item: its ID is WORKER:NUMBER.") % {"item": item})
    return worker_named(graph, worker), int(number)


def content_of(graph: Graph, item: str, *, name: str, of: str) -> tuple[str, bytes]:
    """Return media type and bytes of an input or an output. Raises NotOfWorker, Unavailable."""
    worker, number = located(graph, item)
    return ask(worker, "/items/content", query={"item": number, "name": name, "of": of})


def picture_type(data: bytes) -> str:
    """Return the media type of a picture by its first bytes; empty: it is none."""
    for start, kind in ((b"\x89PNG", "image/png"), (b"\xff\xd8\xff", "image/jpeg")):
        if data.startswith(start):
            return kind
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else ""


def spans_of(graph: Graph, item: str) -> list[Mapping[str, Any]]:
    """Return the calls of an item. Raises NotOfWorker, Unavailable."""
    worker, number = located(graph, item)
    found: list[Mapping[str, Any]] = json.loads(ask(worker, "/timeline", query={"item": number})[1])["spans"]
    return found


def latest_spans(graph: Graph) -> dict[str, tuple[float, list[Mapping[str, Any]]]]:
    """Return by worker the seconds of its run, and the calls of its last ones."""
    seen = ask_all(workers_of(graph), "/timeline", query={"last": LAST_SECONDS})
    return {
        worker.name: (one["elapsed_seconds"], one["spans"]) for worker, one in seen.items() if one is not None
    }
