"""A worker that starts at once: takes a worker's command line, serves `/healthz`, drains on SIGTERM.

Its engine settings: `fails` (a reason) ends it at once, `drains_seconds` is how long it takes to end.
"""

import errno
import json
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from serving.worker_command import EXIT_PORT_TAKEN, WorkerCommand

command = WorkerCommand.parse(sys.argv[1:])
state = "ready"


class StateHandler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps({"state": state, "reason": "", "worker": command.name}).encode()
        self.send_response(200 if state == "ready" else 503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def drain(*_: object) -> None:
    global state
    state = "draining"
    threading.Thread(target=end).start()


def end() -> None:
    time.sleep(command.settings.get("drains_seconds", 0))
    server.shutdown()


sys.stderr.write(f"{command.name} serves {command.version_label}\n")
if reason := command.settings.get("fails"):
    sys.exit(reason)
try:
    server = ThreadingHTTPServer((command.host, command.port), StateHandler)
except OSError as error:
    sys.exit(EXIT_PORT_TAKEN if error.errno == errno.EADDRINUSE else str(error))
signal.signal(signal.SIGTERM, drain)
server.serve_forever(poll_interval=0.02)
