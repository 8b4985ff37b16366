"""A graph as a service: the executor in a process of its own, asked by the handlers of the runtime.

A file with a graph and without an app is served by this one: `POST /run` is an item, `POST /run/stream` tells
its progress as server-sent events, `POST /run/jobs` puts it into the queue that workers pull from.
"""

import asyncio
import base64
import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from serving.fields import ProtocolError
from serving.graphs.counters import timeline
from serving.graphs.encoding import MEDIA_TYPES, encode_output
from serving.graphs.errors import EntryFull, GraphError, ItemExpired, ItemFailed, ItemForgotten
from serving.graphs.executor import GraphExecutor
from serving.graphs.item_records import Outputs
from serving.graphs.program import Graph
from serving.graphs.self_profile import SelfProfile
from serving.runtime.app import App, OwnProcess
from serving.runtime.batching import OFFLINE, ONLINE
from serving.runtime.context import context, deadline, runtime
from serving.runtime.errors import AppError, Problem
from serving.runtime.frames import Frame, FrameReader, Meta, pack_frame
from serving.runtime.handler_request import Request, Response
from serving.runtime.llm import RUN_VARIABLE

PLAN_FILE = "plan.json"
"""Beside the graph's file: the plan that a worker starts with."""
PROCESSES = 8
"""Items that one worker takes at a time."""
OWN_PROCESS = "graph"
READ_BYTES = 1 << 20


def app_of(graph: Graph, file: Path) -> App:
    """The app that serves the graph of a file."""
    server = GraphServer(file)
    client = GraphClient(graph, server.address)
    app = App(processes=PROCESSES, title=graph.name)
    app.own_processes.append(OwnProcess(OWN_PROCESS, server))
    app.post("/run")(client.run)
    app.stream("/run/stream")(client.run_stream)
    app.job("/run/jobs")(client.run_job)
    app.get("/graph")(client.graph)
    app.control("GET", "/counters")(client.counters)
    app.control("GET", "/timeline")(client.timeline)
    app.control("GET", "/items")(client.items)
    app.control("GET", "/items/content")(client.content)
    app.control("POST", "/items/retry")(client.retry)
    app.control("POST", "/plan")(client.plan)
    app.control("GET", "/profile")(client.profile)
    app.control("POST", "/profile")(client.begin_profile)
    return app


class GraphServer:
    """The executor's process: hears handlers at a socket in the service's own directory."""

    load_timeout_seconds = 1_800.0

    def __init__(self, file: Path) -> None:
        self._file = file
        self.address = Path(os.environ.get(RUN_VARIABLE, "/nonexistent"), "graph.sock")

    def keep(self, ready: Callable[[], None]) -> None:
        """Runs until the executor cannot go on. Raises AppError."""
        raise AppError(asyncio.run(self._serve(ready)))

    async def _serve(self, ready: Callable[[], None]) -> str:
        plan_file = self._file.with_name(PLAN_FILE)
        try:
            plan = json.loads(plan_file.read_bytes()) if plan_file.exists() else None
            executor = GraphExecutor(self._file, plan)
            await executor.start()
        except (GraphError, ProtocolError, ValueError) as error:
            return str(error)
        self.address.parent.mkdir(mode=0o700, exist_ok=True)
        self.address.unlink(missing_ok=True)
        serve = partial(_Connection.serve, executor, SelfProfile(self._file.resolve()))
        await asyncio.start_unix_server(serve, self.address)
        ready()
        reason = await executor.died()
        await executor.stop()
        return reason


class _Connection:
    """Request of a handler, which ends its item when the client hangs up."""

    @staticmethod
    async def serve(
        executor: GraphExecutor,
        profile: SelfProfile,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        frames = FrameReader()
        try:
            while data := await reader.read(READ_BYTES):
                for _, meta, body in frames.feed(data):
                    if meta["ask"] == "profile":
                        kind, answer, piece = _profiled(executor, profile, begins=meta["begins"])
                    else:
                        kind, answer, piece = await _Connection._answer(executor, meta, body, reader, writer)
                    writer.write(pack_frame(kind, answer, piece))
                    await writer.drain()
                    return
        except OSError:
            pass
        finally:
            writer.close()

    @staticmethod
    async def _answer(
        executor: GraphExecutor,
        meta: Meta,
        body: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> tuple[Frame, Meta, bytes]:
        match meta["ask"]:
            case "counters":
                return Frame.ANSWER, _status(executor), b""
            case "items":
                chosen = [one for one in executor.records() if meta["state"] in ("", one.state)]
                documents = [one.document() for one in chosen[: meta["most"]]]
                return Frame.ANSWER, {"items": documents}, b""
            case "content" | "retry":
                try:
                    if meta["ask"] == "retry":
                        return Frame.ANSWER, {"item": executor.retry(meta["item"])}, b""
                    return _content(executor, meta)
                except ItemForgotten as error:
                    return Frame.END, Problem(404, "Not kept", str(error)).document(), b""
            case "timeline":
                now = executor.counters().elapsed_seconds
                since = now - meta["last"] if meta["last"] else meta["since"]
                found = timeline(executor.calls.spans, since=since, item=meta["item"])
                return Frame.ANSWER, {"elapsed_seconds": now, "spans": found}, b""
            case "plan":
                try:
                    if meta["waits"]:
                        await executor.switch(meta["plan"])
                    else:
                        executor.begin_switch(meta["plan"])
                except (ProtocolError, GraphError) as error:
                    return Frame.END, Problem(422, "Wrong plan", str(error)).document(), b""
                return Frame.ANSWER, executor.plan.document(), b""
        inputs, at = {}, 0
        for name, length in meta["inputs"]:
            inputs[name], at = body[at : at + length], at + length

        def tell(node: str, done: int, of: int) -> None:
            writer.write(pack_frame(Frame.PROGRESS, {"node": node, "done": done, "of": of}))

        number, outcome = executor.submit(
            inputs,
            priority=meta["priority"],
            deadline_seconds=meta["seconds"],
            progress=tell if meta["tells"] else None,
        )
        left = asyncio.ensure_future(reader.read(1))
        either: list[asyncio.Future[Any]] = [left, outcome]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        left.cancel()
        if not outcome.done():
            executor.cancel(number)
        try:
            outputs = await outcome
        except ItemFailed as error:
            status = 504 if isinstance(error, ItemExpired) else 429 if isinstance(error, EntryFull) else 422
            problem = Problem(status, "Item failed", str(error)).document()
            return Frame.END, problem | {"calls": executor.calls_of(number)}, b""
        described = [(name, suffix, len(data)) for name, (suffix, data) in outputs.items()]
        whole = b"".join(data for _, data in outputs.values())
        return Frame.ANSWER, {"item": number, "outputs": described, "calls": executor.calls_of(number)}, whole


def _status(executor: GraphExecutor) -> Meta:
    """Counters with the plan that they are of."""
    return {
        **executor.counters().document(),
        "digest": executor.graph.digest,
        "plan": executor.plan.document(),
        "is_switching": executor.is_switching,
        "switch_problem": executor.switch_problem,
    }


def _profiled(executor: GraphExecutor, profile: SelfProfile, *, begins: bool) -> tuple[Frame, Meta, bytes]:
    try:
        if begins:
            uses_cards = any(one.device == "cuda" for one in executor.plan.tasks.values())
            profile.begin(executor.kept.inputs(), "cuda" if uses_cards else "cpu")
    except GraphError as error:
        return Frame.END, Problem(409, "No profile", str(error)).document(), b""
    return Frame.ANSWER, profile.document(), b""


def _content(executor: GraphExecutor, meta: Meta) -> tuple[Frame, Meta, bytes]:
    """Bytes of an input or an output. Raises ItemForgotten."""
    record, name = executor.kept.get(meta["item"]), meta["name"]
    if meta["is_input"] and name in record.inputs:
        return Frame.ANSWER, {"suffix": "bin"}, record.inputs[name]
    if not meta["is_input"] and name in record.outputs:
        suffix, data = record.outputs[name]
        return Frame.ANSWER, {"suffix": suffix}, data
    raise ItemForgotten(f"{name!r} of item {meta['item']} is not kept")


class GraphClient:
    """The handlers."""

    def __init__(self, graph: Graph, address: Path) -> None:
        self._graph, self._address = graph, address

    def run(self, request: Request) -> Response:
        """Run one item: the input's bytes, or a JSON object with all inputs. Answers with the output."""
        for frame, meta, body in self._asked(*self._item(request, tells=False)):
            if frame is Frame.ANSWER:
                return self._response(meta, body)
        raise _unavailable()

    def run_stream(self, request: Request) -> Iterator[Any]:
        """Run one item and tell its progress; the last event has the outputs, in base64."""
        for frame, meta, body in self._asked(*self._item(request, tells=True)):
            if frame is Frame.PROGRESS:
                yield meta
            else:
                yield {"item": meta["item"], "outputs": _documents(_outputs(meta, body))}

    def run_job(self, request: Request, progress: Callable[[float, str], None]) -> Response:
        """Run one item when a worker is free, after those of clients that wait. Answers with the output."""
        over: set[str] = set()
        meta, inputs = self._item(request, tells=True)
        for frame, answer, body in self._asked({**meta, "priority": OFFLINE}, inputs):
            if frame is Frame.ANSWER:
                return self._response(answer, body)
            if answer["done"] == answer["of"]:
                over.add(answer["node"])
                progress(len(over) / len(self._graph.nodes), answer["node"])
        raise _unavailable()

    def graph(self) -> dict[str, Any]:
        """Description of the graph: tasks, nodes, edges."""
        return self._graph.description.document()

    def counters(self) -> dict[str, Any]:
        """Counters of the run with its plan: items, queues, batches, busy seconds."""
        return self._one({"ask": "counters"})

    def timeline(self, since: float = 0.0, last: float = 0.0, item: int = 0) -> dict[str, Any]:
        """Calls that ended after `since` seconds of the run, in the `last` seconds, or those of one item."""
        return self._one({"ask": "timeline", "since": since, "last": last, "item": item or None})

    def items(self, state: str = "", most: int = 100) -> dict[str, Any]:
        """Items, the newest first, or those in one state; failed ones with their reasons."""
        return self._one({"ask": "items", "state": state, "most": most})

    def content(self, item: int, name: str = "", of: str = "output") -> Response:
        """Bytes of an output, or with `of=input` of an input, of an item that is over."""
        asked = {"ask": "content", "item": item, "name": name, "is_input": of == "input"}
        for _, meta, body in self._asked(asked, b""):
            return Response(body, media_type=MEDIA_TYPES.get(meta["suffix"], "application/octet-stream"))
        raise _unavailable()

    def retry(self, item: int) -> dict[str, Any]:
        """Run a failed item again, as a new one."""
        return self._one({"ask": "retry", "item": item})

    def plan(self, request: Request, waits: bool = True) -> dict[str, Any]:
        """Take over another plan; with `waits=0` go on at once, and /counters says when it is done."""
        return self._one({"ask": "plan", "plan": request.json(), "waits": waits})

    def profile(self) -> dict[str, Any]:
        """State of the profile that this worker takes of its tasks, and its report."""
        return self._one({"ask": "profile", "begins": False})

    def begin_profile(self) -> dict[str, Any]:
        """Measure the tasks on this machine with inputs that were kept, while a core is free."""
        return self._one({"ask": "profile", "begins": True})

    def _item(self, request: Request, *, tells: bool) -> tuple[Meta, bytes]:
        inputs = list(self._graph.inputs)
        if len(inputs) == 1:
            given: Mapping[str, bytes] = {inputs[0]: request.body}
        else:
            document = request.json()
            if not isinstance(document, dict) or document.keys() != set(inputs):
                raise Problem(422, "Invalid request", f"The body must be an object with {', '.join(inputs)}.")
            given = {name: encode_output(document[name])[1] for name in inputs}
        seconds = deadline()
        meta = {
            "ask": "run",
            "inputs": [(name, len(data)) for name, data in given.items()],
            "priority": OFFLINE if context.get().priority else ONLINE,
            "seconds": seconds if seconds != float("inf") else None,
            "tells": tells,
        }
        return meta, b"".join(given.values())

    def _one(self, meta: Meta) -> dict[str, Any]:
        for _, answer, _ in self._asked(meta, b""):
            return answer
        raise _unavailable()

    def _asked(self, meta: Meta, body: bytes) -> Iterator[tuple[Frame, Meta, bytes]]:
        """Frames of the executor up to its answer. Raises Problem."""
        frames, current = FrameReader(), runtime.get()
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(str(self._address))
                connection.sendall(pack_frame(Frame.REQUEST, meta, body))
                while True:
                    if current is not None:
                        current.wait_for(connection.fileno(), deadline() + 1.0)
                    data = connection.recv(READ_BYTES)
                    for frame, answer, piece in frames.feed(data):
                        if current is not None:
                            for call in answer.get("calls", ()):
                                current.called(*call)
                        if frame is Frame.END:
                            raise Problem(answer["status"], answer["title"], answer.get("detail", ""))
                        yield frame, answer, piece
                        if frame is Frame.ANSWER:
                            return
                    if not data:
                        raise OSError("it hung up")
            except TimeoutError as error:
                raise Problem(504, "Deadline passed", str(error)) from None
            except OSError as error:
                raise Problem(503, "Graph unavailable", f"Its executor does not answer: {error}") from None

    def _response(self, meta: Meta, body: bytes) -> Response:
        outputs = _outputs(meta, body)
        if list(outputs) == [""]:
            suffix, data = outputs[""]
            return Response(data, media_type=MEDIA_TYPES[suffix])
        return Response(json.dumps(_documents(outputs)), media_type=MEDIA_TYPES["json"])


def _unavailable() -> Problem:
    return Problem(503, "Graph unavailable", "Its executor is being started again.")


def _outputs(meta: Meta, body: bytes) -> Outputs:
    outputs, at = {}, 0
    for name, suffix, length in meta["outputs"]:
        outputs[name], at = (suffix, body[at : at + length]), at + length
    return outputs


def _documents(outputs: Outputs) -> dict[str, Any]:
    return {
        name: {"media_type": MEDIA_TYPES[suffix], "base64": base64.b64encode(data).decode()}
        for name, (suffix, data) in outputs.items()
    }
