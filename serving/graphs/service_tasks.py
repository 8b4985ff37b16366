"""Services that are released already, as tasks of a graph."""

from typing import Any

from serving.graphs.errors import refused
from serving.graphs.program import Task
from serving.graphs.service_calls import ServiceCalls
from serving.graphs.task_options import Batch, TaskOptions

LATE_SECONDS = 5.0


def service(
    name: str,
    *,
    path: str = "/run",
    takes: Any = Any,
    returns: Any = Any,
    in_flight: int = 8,
    retries: int = 0,
    timeout_seconds: float = 60.0,
) -> Task:
    """Makes a task of a released service. A value is the body of a POST to `path` behind the gateway, bytes
    as they are and others as JSON; the answer is the result, read where it is JSON.

    `in_flight`: requests of one process at a time.
    """
    if not name or not name.replace("-", "").isalnum():
        raise refused(f"{name!r} names no service: letters, digits and -")
    if not path.startswith("/"):
        raise refused(f"the path of {name} begins with /, not {path!r}")

    def run(self: ServiceCalls, values: list[Any]) -> list[Any]:
        return self.answers(values)

    run.__annotations__ = {"values": list[takes], "return": list[returns]}
    limits = {"path": path, "in_flight": in_flight, "timeout_seconds": timeout_seconds}
    target = type(name, (ServiceCalls,), {"run": run, "service_name": name, **limits})
    chosen = TaskOptions(
        batch=Batch(max_size=in_flight, max_wait_ms=0.0),
        device="cpu",
        model=name,
        retries=retries,
        # Its process is replaced only where the service's own limit did not hold.
        timeout_seconds=timeout_seconds + LATE_SECONDS,
    )
    return Task(target, chosen)
