"""A profile that a person ordered: a worker takes it while it has no item, and its report is kept."""

import json
from collections.abc import Callable
from typing import Any

from django.utils.translation import gettext as _

from common.errors import SlipwayError, Unavailable
from graphs import services
from graphs.errors import NotOfWorker
from graphs.following import ACTOR
from graphs.models import Graph
from graphs.workers import GraphWorker, ask, worker_named, workers_of

REPORTED = ("digest", "code", "machine", "driver", "tasks")


def advance_profile(graph: Graph, check: Callable[[], None]) -> None:
    """Begin an ordered profile at an idle worker, or keep the report of one that is done."""
    order = dict(graph.profiling)
    if order.get("state") not in ("waiting", "running"):
        return
    check()
    after = _begun(graph, order) if order["state"] == "waiting" else _followed(graph, order)
    if after != order:
        Graph.objects.filter(pk=graph.pk).update(profiling=after)
        graph.profiling = after


def _begun(graph: Graph, order: dict[str, Any]) -> dict[str, Any]:
    idle = {one["name"] for one in graph.look.get("workers", ()) if one["is_current"]}
    workers = [one for one in workers_of(graph) if one.name in idle]
    if not workers:
        return {**order, "reason": _("No worker runs the graph.")}
    if graph.look["in_flight"] or graph.look["waiting"]:
        return {**order, "reason": _("Workers have items: it begins once they are idle.")}
    try:
        ask(workers[0], "/profile", is_change=True)
    except (Unavailable, NotOfWorker) as error:
        return {**order, "reason": str(error)}
    return {**order, "state": "running", "worker": workers[0].name, "reason": ""}


def _followed(graph: Graph, order: dict[str, Any]) -> dict[str, Any]:
    try:
        seen = _seen(worker_named(graph, order["worker"]))
    except NotOfWorker as error:
        return {**order, "state": "failed", "reason": str(error)}
    except Unavailable:
        return order
    if seen["state"] == "running":
        return order
    if seen["state"] != "done":
        return {**order, "state": "failed", "reason": seen["problem"] or _("The worker was started anew.")}
    report = {name: value for name, value in seen["report"].items() if name in REPORTED}
    try:
        services.record_profile(graph, actor=ACTOR, **report)
    except SlipwayError as error:
        return {**order, "state": "failed", "reason": str(error)}
    return {}


def _seen(worker: GraphWorker) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(ask(worker, "/profile")[1])
    return document
