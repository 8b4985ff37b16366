"""A graph by Ray Serve: a deployment per task with the plan's replicas, and an entry that asks them.

`application` is what `serveConfigV2` of a RayService names; `serve_here` runs it until it is told to stop.
"""

import asyncio
import base64
import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ray import serve
from ray.serve import Application
from ray.serve.exceptions import RayServeException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from serving.graphs.calling import Arguments, CallFailure, CallResult
from serving.graphs.encoding import LARGEST_INPUT_BYTES, MEDIA_TYPES, decode_named, encode_output
from serving.graphs.errors import GraphError, ItemFailed
from serving.graphs.loading import load_graph
from serving.graphs.offline import encode_result
from serving.graphs.plan import GraphPlan
from serving.graphs.program import Graph, GraphNode
from serving.graphs.ray.connection import connected
from serving.graphs.ray.sizes import actor_sizes, needed
from serving.graphs.ray.stages import LoadedRunner
from serving.graphs.ray.walk import walk

QUEUED_BATCHES = 2
"""Batches that a replica has at a time: one runs, one gathers."""
ENTRY = "entry"


class ReplicaOfTask:
    """A process of one task; batches gather in it."""

    def __init__(self, file: str, task: str, max_size: int, wait_ms: float, threads: int) -> None:
        path = Path(file)
        self._runner = LoadedRunner(load_graph(path), path.parent, task, threads)
        batched = serve.batch(max_batch_size=max_size, batch_wait_timeout_s=wait_ms / 1000)
        self._batched = batched(self._run)

    async def _run(self, calls: list[Arguments]) -> list[CallResult | CallFailure]:
        return await asyncio.to_thread(self._runner.run, calls)

    async def call(self, arguments: Arguments) -> CallResult | CallFailure:
        result: CallResult | CallFailure = await self._batched(arguments)
        return result


class GraphEntry:
    """The routes of `slipway serve`: `POST /run` and `GET /graph`."""

    def __init__(self, file: str, tasks: Mapping[str, Any]) -> None:
        self._graph = load_graph(Path(file))
        self._tasks = tasks

    async def __call__(self, request: Request) -> Response:
        match request.method, request.url.path.rstrip("/").rpartition("/")[2]:
            case "GET", "graph":
                return JSONResponse(self._graph.description.document())
            case "POST", "run":
                return await self._answer(await request.body())
        return _problem(404, "Not found", "There are POST /run and GET /graph.")

    async def _answer(self, body: bytes) -> Response:
        try:
            item = self._decoded(body)
            outputs = await walk(self._graph, item, self._call)
            encoded = {name: encode_result(value) for name, value in outputs.items()}
        except ItemFailed as error:
            return _problem(422, "Item failed", str(error))
        except ValueError as error:
            return _problem(422, "Invalid request", str(error))
        if list(encoded) == [""]:
            suffix, data = encoded[""]
            return Response(data, media_type=MEDIA_TYPES[suffix])
        return JSONResponse(
            {
                name: {"media_type": MEDIA_TYPES[suffix], "base64": base64.b64encode(data).decode()}
                for name, (suffix, data) in encoded.items()
            }
        )

    def _decoded(self, body: bytes) -> dict[str, Any]:
        inputs = self._graph.inputs
        if len(body) > LARGEST_INPUT_BYTES:
            raise ItemFailed(f"it has {len(body)} bytes, more than {LARGEST_INPUT_BYTES}")
        if len(inputs) == 1:
            return {name: decode_named(name, kind, body) for name, kind in inputs.items()}
        document = json.loads(body)
        if not isinstance(document, dict) or document.keys() != set(inputs):
            raise ValueError(f"The body must be an object with {', '.join(inputs)}.")
        return {
            name: decode_named(name, kind, encode_output(document[name])[1]) for name, kind in inputs.items()
        }

    async def _call(self, node: GraphNode, arguments: Arguments) -> Any:
        """A replica that dies is replaced by Ray; its items fail, as nothing tells which of them ended it."""
        try:
            result = await self._tasks[node.loaded.name].call.remote(arguments)
        except RayServeException as error:
            raise ItemFailed(f"{node.loaded.name}: Ray Serve: {error}") from error
        except Exception as error:
            raise ItemFailed(f"{node.loaded.name}: its process ended: {type(error).__name__}") from error
        if isinstance(result, CallFailure):
            raise ItemFailed(result.reason)
        return result.value


def _problem(status: int, title: str, detail: str) -> Response:
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return JSONResponse(body, status_code=status, media_type="application/problem+json")


def deployments(file: str, plan: GraphPlan) -> Application:
    """Numbers of replicas are the plan's, and nothing scales them."""
    tasks = {}
    for name, size in actor_sizes(plan).items():
        task = plan.tasks[name]
        replica = serve.deployment(
            name=name,
            num_replicas=task.replicas,
            max_ongoing_requests=QUEUED_BATCHES * task.max_size,
            ray_actor_options={"num_cpus": size.cpus, "num_gpus": size.gpus},
        )(ReplicaOfTask)
        tasks[name] = replica.bind(file, name, task.max_size, task.wait_ms, task.threads)
    entry = serve.deployment(
        name=ENTRY, max_ongoing_requests=plan.entry.items, ray_actor_options={"num_cpus": 0}
    )(GraphEntry)
    return entry.bind(file, tasks)


def application(arguments: dict[str, str]) -> Application:
    """The `import_path` of a Serve config is `serving.graphs.ray.online:application`. `file`: the graph's, in
    the image or the working directory. `plan`: the plan's JSON; without it one process a task."""
    graph = load_graph(Path(arguments["file"]))
    text = arguments.get("plan", "")
    plan = GraphPlan.parse(json.loads(text), graph.description) if text else None
    return deployments(arguments["file"], plan or GraphPlan.of_one_each(graph.description))


def serve_here(file: Path, graph: Graph, plan: GraphPlan, *, address: str, host: str, port: int) -> None:
    """Serves until SIGINT or SIGTERM; says on its standard error when it is ready. Raises GraphError."""
    signals = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    counts = {name: one.replicas for name, one in plan.tasks.items()}
    with connected(address, file, needed(graph.description, plan, counts)) as place:
        try:
            serve.start(http_options={"host": host, "port": port})
            serve.run(deployments(str(place), plan), name=graph.name, route_prefix="/")
        except (RayServeException, RuntimeError) as error:
            raise GraphError(f"Ray Serve does not serve {graph.name}: {_last_line(error)}") from None
        os.write(2, f"slipway: http://{host}:{port}/run serves {graph.name} on Ray\n".encode())
        signal.sigwait(signals)
        serve.delete(graph.name)
        if not address:
            serve.shutdown()


def _last_line(error: Exception) -> str:
    return next((line for line in reversed(str(error).splitlines()) if line.strip()), type(error).__name__)
