"""`slipway models push` over a slow line, killed several times: how many bytes go over it in the end."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from perf.registry.imports import shards
from perf.registry.server import populated, web
from perf.registry.table import MEBIBYTE, ROOT, directory, heading, line

KILLS = 4
LIMIT = 1.1


class SlowLine:
    """A port before another one: so many bytes a second go up, all connections together."""

    def __init__(self, port: int, bytes_per_second: int) -> None:
        self.sent = 0
        self._target, self._rate = port, bytes_per_second
        self._lock = threading.Lock()
        self._free_at = time.monotonic()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                # What waits in here would count as sent though the line has not carried it.
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
                server = socket.create_connection(("127.0.0.1", self._target))
                threading.Thread(target=self._up, args=(client, server), daemon=True).start()
                threading.Thread(target=self._down, args=(server, client), daemon=True).start()

    def _up(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(16_384):
                with self._lock:
                    self._free_at = max(self._free_at, time.monotonic()) + len(data) / self._rate
                    wait = self._free_at - time.monotonic()
                time.sleep(max(0.0, wait))
                server.sendall(data)
                self.sent += len(data)
        server.close()

    @staticmethod
    def _down(server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(65_536):
                client.sendall(data)
        client.close()

    def close(self) -> None:
        self._listener.close()


def measure(mebibytes: int, mebibytes_per_second: float) -> None:
    total = mebibytes * MEBIBYTE
    with directory() as home:
        made = home / "made"
        made.mkdir()
        shards(made, total_bytes=total)
        token = populated(home, 1, 1, "models.write")
        with web(home) as (_, port), _line(port, int(mebibytes_per_second * MEBIBYTE)) as slow:
            heading(
                f"Push of {mebibytes} MiB over a line of {mebibytes_per_second:g} MiB/s, killed {KILLS} times"
            )
            command = [sys.executable, "-m", "slipway.cli", "--url", f"http://127.0.0.1:{slow.port}"]
            command += ["models", "push", str(made), "--model", "chat-00000", "--no-wait"]
            environment = {**os.environ, "SLIPWAY_TOKEN": token, "XDG_CACHE_HOME": str(home / "cache")}
            for number in range(1, KILLS + 1):
                _killed(command, environment, lambda number=number: slow.sent > total * number / (KILLS + 1))
            subprocess.run(command, check=True, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
            ratio = slow.sent / total
            line(
                "bytes over the line",
                f"{slow.sent:,} ({ratio:.3f} x)",
                f"<= {LIMIT:.2f} x",
                holds=ratio <= LIMIT,
            )


@contextmanager
def _line(port: int, rate: int) -> Iterator[SlowLine]:
    slow = SlowLine(port, rate)
    try:
        yield slow
    finally:
        slow.close()


def _killed(command: Sequence[str], environment: Mapping[str, str], is_due: Callable[[], bool]) -> None:
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while not is_due():
        assert process.poll() is None, "it was over before it could be killed"
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
