"""The HTTP face of a worker: OpenAI's routes, health, metrics."""

from typing import Any, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from serving import logs
from serving.adapters import AdapterFollower
from serving.desk import Desk, Progress, RequestOutcome
from serving.engines.base import Engine, EngineError
from serving.faults import FaultInjection
from serving.generation import Generation, error_response, json_response
from serving.kept_answers import KeptAnswers, ReadAlong
from serving.metrics import CONTENT_TYPE, WorkerMetrics
from serving.openai import OpenAiRoute, RequestFault, read_call
from serving.prompt_compression import PromptCompressor
from serving.protocol import CHOSEN_BY_HEADER, KEEP_HEADER, KEPT_PATH, WorkerState
from serving.tracing import is_sampled
from serving.worker_command import WorkerCommand

MAX_BODY_BYTES = 32 * 2**20


def served_names(command: WorkerCommand) -> tuple[str, ...]:
    """The model names that requests may use: the service (which stays the same while versions change), the
    model, and the version's label."""
    model = command.version_label.partition(":")[0]
    return tuple(dict.fromkeys((command.service, model, command.version_label)))


def identity_headers(command: WorkerCommand, desk: Desk) -> dict[str, str]:
    """Headers that every answer of a worker carries."""
    # A gateway that keeps connections open learns to leave before they are closed under its hands.
    leaving = {"connection": "close"} if desk.state is WorkerState.DRAINING else {}
    # For gateways that cannot say it; one that can overwrites it. Headers are ASCII.
    label = command.version_label
    version = {"x-slipway-version": label} if label.isascii() else {}
    return {"x-slipway-worker": command.name, **version, **leaving}


def health_document(command: WorkerCommand, desk: Desk) -> dict[str, Any]:
    return {
        "state": desk.state,
        "reason": desk.reason,
        "worker": command.name,
        "version": command.version_label,
        "busy": round(desk.busy, 4),
        "in_flight": desk.in_flight,
        "slots": desk.slots,
        "queue_depth": desk.queue_depth,
    }


def make_app(
    *,
    command: WorkerCommand,
    desk: Desk,
    engine: Engine,
    adapters: AdapterFollower,
    compressor: PromptCompressor | None = None,
    faults: FaultInjection,
    started_at: float,
) -> Starlette:
    """`started_at`: seconds since the epoch, shown as the creation time of the models."""
    names = served_names(command)
    metrics = WorkerMetrics(desk, command)
    kept = KeptAnswers(desk)

    def headers() -> dict[str, str]:
        return identity_headers(command, desk)

    async def answer(request: Request) -> Response | ReadAlong:
        progress = progress_of(request)
        raw, response = await generate(request, progress)
        if not (key := request.headers.get(KEEP_HEADER)):
            return response
        path = request.scope["path"]
        return ReadAlong(response, lambda code, body: kept.keep(key, path, raw, code, body, progress))

    def progress_of(request: Request) -> Progress:
        by_client = request.headers.get(CHOSEN_BY_HEADER) == "client"
        traced = request.headers.get("traceparent", "")
        logs.traceparent.set(traced if is_sampled(traced) else "")
        return Progress(chosen_by="client" if by_client else "gateway", traceparent=traced)

    async def generate(request: Request, progress: Progress) -> tuple[bytes, Response]:
        metrics.arrived(progress)
        raw = b""
        route = OpenAiRoute(request.scope["path"])
        try:
            raw = await _body(request)
            if desk.state in (WorkerState.STARTING, WorkerState.FAILED):
                raise RequestFault.unavailable(f"This worker is not ready: {desk.reason}")
            if route.api not in engine.apis:
                raise RequestFault(404, f"The engine {command.engine} does not answer {route}")
            call = read_call(route, raw, served=(*names, *engine.adapters))
            told: dict[str, str] = {}
            if compressor is not None:
                call, told = await compressor.applied(call, request.headers)
        except RequestFault as fault:
            desk.record(
                RequestOutcome(
                    route=route,
                    code=fault.status,
                    seconds=progress.elapsed,
                    broke_off=False,
                    progress=progress,
                )
            )
            return raw, error_response(fault, headers())
        sent = {**headers(), **told}
        return raw, Generation(call, desk=desk, engine=engine, faults=faults, progress=progress, headers=sent)

    async def tell_kept(request: Request) -> Response:
        """Beside `/v1`, too, and for who has the key of the comparison alone."""
        try:
            told = kept.told(request.headers.get(KEEP_HEADER, ""), await _body(request))
        except RequestFault as fault:
            return error_response(fault, headers())
        if told is None:
            return error_response(RequestFault.invalid("Ask for digests, or session, after and ended_for"))
        return json_response(told, headers=headers())

    async def models(request: Request) -> Response:
        entries = {
            name: {"id": name, "object": "model", "created": int(started_at), "owned_by": "slipway"}
            for name in (*names, *sorted(engine.adapters))
        }
        wanted = request.path_params.get("model")
        if wanted is None:
            return json_response({"object": "list", "data": list(entries.values())}, headers=headers())
        if wanted in entries:
            return json_response(entries[wanted], headers=headers())
        return error_response(RequestFault.no_such_model(wanted), headers())

    async def health(_: Request) -> Response:
        status = 200 if desk.state is WorkerState.READY else 503
        return json_response(health_document(command, desk), status=status, headers=headers())

    async def adapter(request: Request) -> Response:
        """Beside `/v1`, so that no gateway passes it on: who runs the worker decides on its adapters."""
        name = request.path_params["name"]
        try:
            await (adapters.load_own if request.method == "PUT" else adapters.unload)(name)
        except RequestFault as fault:
            return error_response(fault, headers())
        except EngineError as error:
            return error_response(RequestFault.internal(str(error)), headers())
        return json_response({"adapters": sorted(engine.adapters)}, headers=headers())

    async def scrape(_: Request) -> Response:
        return Response(metrics.expose() + await engine.metrics(), media_type=CONTENT_TYPE)

    async def refused(request: Request, error: Exception) -> Response:
        fault = cast("HTTPException", error)
        words = {
            404: f"There is no {request.url.path} here",
            405: f"{request.method} is not possible here",
        }
        return error_response(
            RequestFault(fault.status_code, words.get(fault.status_code, fault.detail)), headers()
        )

    async def broken(_: Request, __: Exception) -> Response:
        return error_response(RequestFault.internal("The worker failed; its log says why"), headers())

    return Starlette(
        routes=[
            *(Route(route, answer, methods=["POST"]) for route in OpenAiRoute),
            Route(KEPT_PATH, tell_kept, methods=["POST"]),
            Route("/v1/models", models),
            Route("/v1/models/{model:path}", models),
            Route("/adapters/{name}", adapter, methods=["PUT", "DELETE"]),
            Route("/healthz", health),
            Route("/metrics", scrape),
        ],
        exception_handlers={HTTPException: refused, Exception: broken},
    )


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY_BYTES:
            raise RequestFault(413, f"The body has more than {MAX_BODY_BYTES} bytes")
    return bytes(body)
