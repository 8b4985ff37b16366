"""The console as it is deployed: collected static files, uvicorn, strict headers; nothing is patched."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import httpx2

from tests.patience import PATIENCE_SECONDS
from tests.prepared import prepare_home

PROJECT = Path(__file__).resolve().parents[2]
PREPARE = """
import sys
from django.contrib.auth import get_user_model
get_user_model().objects.create_superuser("ada.lovelace", "ada@example.org", sys.argv[1])
"""
PASSWORD = "a long password"


class ConsoleServer:
    """A uvicorn process over a home of its own. `session` is the cookie of a signed-in superuser."""

    def __init__(self) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="slipway-console-"))
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self._environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("SLIPWAY_", "DJANGO_"))
        } | {
            "DJANGO_SETTINGS_MODULE": "controlplane.settings.embedded",
            "SLIPWAY_HOME": str(self._home),
            "SLIPWAY_PORT": str(port),
            "SLIPWAY_LOG_LEVEL": "WARNING",
        }
        self._prepare()
        self._log = (self._home / "web.log").open("wb")
        command = [sys.executable, "-m", "uvicorn", "controlplane.asgi:application", "--no-access-log"]
        command += ["--http", "controlplane.connections:BoundedProtocol"]
        command += ["--ws", "controlplane.shared_frames:SharedFrameProtocol"]
        self._process = subprocess.Popen(
            [*command, "--fd", str(listener.fileno())],
            cwd=PROJECT,
            env=self._environment,
            pass_fds=[listener.fileno()],
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        listener.close()
        self._wait_until_it_answers()
        self.session = self._sign_in()

    @property
    def log(self) -> str:
        return (self._home / "web.log").read_text()

    def run(self, code: str, *arguments: str) -> str:
        """Run Python code in the console's home, with Django set up; return its stdout."""
        done = subprocess.run(
            [sys.executable, "-c", f"import django\ndjango.setup()\n{code}", *arguments],
            cwd=PROJECT,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"The console's home could not be prepared:\n{done.stderr}")
        return done.stdout

    def _prepare(self) -> None:
        prepare_home(self._home)
        self.run(PREPARE, PASSWORD)

    def _sign_in(self) -> str:
        headers = {"Referer": self.url, "Origin": self.url}
        with httpx2.Client(base_url=self.url, headers=headers, timeout=PATIENCE_SECONDS) as visitor:
            visitor.get("/accounts/login/")
            form = {
                "login": "ada.lovelace",
                "password": PASSWORD,
                "csrfmiddlewaretoken": visitor.cookies["csrftoken"],
            }
            answer = visitor.post("/accounts/login/", data=form)
            if answer.status_code != 302:
                raise RuntimeError(f"Signing in answered {answer.status_code}:\n{answer.text}")
            return visitor.cookies["sessionid"]

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + 120
        while True:
            try:
                urllib.request.urlopen(f"{self.url}/healthz", timeout=60).close()
                return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"The console did not start:\n{self.log}") from None
                time.sleep(0.1)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
        shutil.rmtree(self._home, ignore_errors=True)
