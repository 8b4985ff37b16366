"""Workers that run a graph, asked over HTTP at their own addresses."""

import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlencode

from django.utils.translation import gettext as _

from clusters.models import Worker
from clusters.states import WorkerState
from common.errors import Unavailable
from graphs.errors import NotOfWorker
from graphs.models import Graph
from serving.protocol import ENGINES_WITH_ROUTES

WITHIN_SECONDS = 3.0
SIDE_BY_SIDE = 16


@dataclass(frozen=True, slots=True, order=True)
class GraphWorker:
    name: str
    address: str
    port: int
    machine: str


def workers_of(graph: Graph) -> list[GraphWorker]:
    """Return ready workers of the team that serve any version of the graph's model."""
    rows = Worker.objects.filter(
        state=WorkerState.READY,
        port__isnull=False,
        deployment__team=graph.team_id,
        deployment__version__model=graph.version.model_id,
        deployment__engine__in=ENGINES_WITH_ROUTES,
    )
    found = rows.exclude(address="").values_list("name", "address", "port", "node__name")
    return sorted(
        GraphWorker(name, address, port, node or "")
        for name, address, port, node in found
        if port is not None
    )


def worker_named(graph: Graph, name: str) -> GraphWorker:
    """Raises NotOfWorker."""
    for one in workers_of(graph):
        if one.name == name:
            return one
    raise NotOfWorker(_("The graph has no ready worker %(name)s.") % {"name": name})


def ask(
    worker: GraphWorker,
    path: str,
    *,
    query: Mapping[str, Any] | None = None,
    body: Any = None,
    is_change: bool = False,
) -> tuple[str, bytes]:
    """Return media type and bytes of a worker's answer. Raises Unavailable, NotOfWorker with its words."""
    connection = HTTPConnection(worker.address, worker.port, timeout=WITHIN_SECONDS)
    address = f"{path}?{urlencode(query)}" if query else path
    try:
        connection.request(
            "POST" if is_change else "GET",
            address,
            body=None if body is None else json.dumps(body),
            headers={"content-type": "application/json"},
        )
        answer = connection.getresponse()
        data = answer.read()
    except (OSError, HTTPException):
        raise Unavailable(_("Worker %(name)s does not answer.") % {"name": worker.name}) from None
    finally:
        connection.close()
    if answer.status >= 500:
        raise Unavailable(_("Worker %(name)s does not answer.") % {"name": worker.name})
    if answer.status != 200:
        said = json.loads(data).get("detail", "") if data.startswith(b"{") else str(answer.status)
        raise NotOfWorker(f"{worker.name}: {said}")
    return answer.headers.get("content-type", ""), data


def ask_all(
    workers: Iterable[GraphWorker], path: str, *, query: Mapping[str, Any] | None = None
) -> dict[GraphWorker, dict[str, Any] | None]:
    """Ask several at once; None: no answer, or none of a graph."""

    def asked(worker: GraphWorker) -> dict[str, Any] | None:
        try:
            document = json.loads(ask(worker, path, query=query)[1])
        except (Unavailable, NotOfWorker, ValueError):
            return None
        return document if isinstance(document, dict) else None

    several = list(workers)
    if not several:
        return {}
    with ThreadPoolExecutor(min(SIDE_BY_SIDE, len(several))) as pool:
        return dict(zip(several, pool.map(asked, several), strict=True))
