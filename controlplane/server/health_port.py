"""`/healthz` and `/readyz` of a role that serves nothing else."""

import json
import logging
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

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
    """As `/readyz` of a web, with whether the processes of this role on this machine take what is due."""
    from controlplane.health import TAKERS_PROBES, parts_health, takes_here
    from controlplane.readiness import readiness

    return readiness(parts_health((*TAKERS_PROBES, takes_here(role))), with_details=with_details)


def _handler(role: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/healthz":
                self._answer(200, b"ok\n", "text/plain")
            elif self.path == "/readyz":
                report = role_readiness(role, with_details=False)
                self._answer(200 if report["ready"] else 503, json.dumps(report).encode(), "application/json")
            else:
                self._answer(404, b"Here are /healthz and /readyz.\n", "text/plain")

        def _answer(self, status: int, body: bytes, content_type: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            logger.debug(format, *args)

    return Handler
