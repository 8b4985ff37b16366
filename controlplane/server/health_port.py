"""`/healthz`, `/readyz` and `/metrics` of a role that serves nothing else."""

import json
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from controlplane.env import env, refuse

logger = logging.getLogger(__name__)


def open_health_port(role: str, port: int | None) -> None:
    """Answer on `port` from a thread of this process, if one is given. Exit status 2: it cannot be had."""
    if port is None:
        return
    try:
        server = ThreadingHTTPServer((env.bind, port), _handler(role))
    except OSError as error:
        raise refuse(f"--health-port {port}: cannot listen on {env.bind} ({error.strerror}).") from None
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="health-port", daemon=True).start()


def role_readiness(role: str, *, with_details: bool) -> dict[str, object]:
    """Answer as `/readyz` of a web, with whether the role's processes on this machine take what is due."""
    from controlplane.health import TAKERS_PROBES, parts_health, takes_here
    from controlplane.readiness import readiness

    return readiness(parts_health((*TAKERS_PROBES, takes_here(role))), with_details=with_details)


def role_metrics(role: str, authorization: str, address: str, accepts: str) -> tuple[int, bytes, str]:
    """Status, body and type. Who may read it says SLIPWAY_METRICS, as of a web's."""
    from django.http import HttpRequest

    from controlplane.metrics import exposed
    from controlplane.scraping import door

    request = HttpRequest()
    request.META = {"HTTP_AUTHORIZATION": authorization, "REMOTE_ADDR": address}
    if (refused := door.refusal(request)) is not None:
        return refused.status, refused.text.encode(), "text/plain"
    body, content_type = exposed(StateOfRole(role), accepts=accepts)
    return 200, body, content_type


class StateOfRole(Collector):
    """The processes of a role on this machine: their parts, their pools, its disks."""

    def __init__(self, role: str) -> None:
        self._role = role

    def describe(self) -> list[Metric]:
        """Nothing beforehand: to register must not ask a thing."""
        return []

    def collect(self) -> Iterator[Metric]:
        from django.db import DatabaseError

        from controlplane.health import TAKERS_PROBES, parts_health, takes_here
        from controlplane.metrics import parts_up
        from controlplane.process_metrics import disks, pools_of_takers

        parts = parts_health((*TAKERS_PROBES, takes_here(self._role)))
        yield parts_up(parts)
        yield from disks()
        if not parts["database"].ok:
            return
        try:
            yield from pools_of_takers(self._role)
        except DatabaseError as error:
            logger.warning("The pools cannot be read: %s", error)


def _handler(role: str) -> type[BaseHTTPRequestHandler]:
    class HealthRequestHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/healthz":
                self._answer(200, b"ok\n", "text/plain")
            elif self.path == "/readyz":
                report = role_readiness(role, with_details=False)
                self._answer(200 if report["ready"] else 503, json.dumps(report).encode(), "application/json")
            elif self.path == "/metrics":
                self._answer(*self._measured())
            else:
                self._answer(404, b"Here are /healthz, /readyz and /metrics.\n", "text/plain")

        def _measured(self) -> tuple[int, bytes, str]:
            from django.db import connection

            try:
                asked = (self.headers.get(name, "") for name in ("Authorization", "Accept"))
                authorization, accepts = asked
                return role_metrics(role, authorization, self.client_address[0], accepts)
            finally:
                connection.close()

        def _answer(self, status: int, body: bytes, content_type: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            logger.debug(format, *args)

    return HealthRequestHandler
