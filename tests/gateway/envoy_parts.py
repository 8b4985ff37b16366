"""Parts shared by tests of Envoy's files."""

from functools import partial

from gateway.routes import RouteSpec, RouteTarget, WorkerEndpoint
from perf.envoy_stack import EnvoyStack

OPEN = partial(RouteSpec, "chat", release_header="open")
THIRD = RouteTarget("chat-3", "chatty:3")


def unserved(stack: EnvoyStack) -> dict[str, object]:
    """The sides that do not answer well, with what they answered."""
    answers = {
        side: stack.get("/chat/v1", **({"x_release": side} if side else {}))
        for side in ("stable", "canary", "")
    }
    return {side: answer for side, answer in answers.items() if answer.status != 200}


def endpoint_of(stack: EnvoyStack, target: RouteTarget) -> WorkerEndpoint:
    return WorkerEndpoint("127.0.0.1", stack.workers[target.name][0].port)
