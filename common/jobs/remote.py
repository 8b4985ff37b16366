"""The control plane as a job in a cluster sees it: its order, and where its results go. Imports no Django."""

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

PATIENCE_SECONDS = 300.0
TIMEOUT_SECONDS = 60.0
_LATER = {408, 425, 429, 500, 502, 503, 504}
BYTES = "application/octet-stream"


class OrderRefused(Exception):
    """The control plane refuses for good; the message is what it says."""


class JobOrder:
    """The order behind a token. What does not answer is asked again for five minutes."""

    path: ClassVar[str]
    """Of its route."""

    def __init__(self, url: str, token: str, *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self.url = url.rstrip("/")
        self.token = token
        self._base = self.url + self.path
        self._patience_seconds = patience_seconds

    @classmethod
    def of_file(cls, path: Path) -> Self:
        """Read `{url, token}`."""
        told = json.loads(path.read_bytes())
        return cls(told["url"], told["token"])

    def read(self) -> Mapping[str, Any]:
        return dict(json.loads(self._asked("GET", "")))

    def tell(self, progress: Mapping[str, Any]) -> None:
        """Say how far it is; what cannot be said now is left out."""
        try:
            self._once("PUT", "progress/", json.dumps(progress).encode())
        except (OSError, http.client.HTTPException):
            return

    def _asked(
        self, method: str, path: str, body: bytes | Path | None = None, *, content: str = "application/json"
    ) -> bytes:
        until, pause = time.monotonic() + self._patience_seconds, 0.5
        while True:
            try:
                return self._once(method, path, body, content=content)
            except urllib.error.HTTPError as error:
                said = error.read(500).decode("utf-8", "replace")
                if error.code not in _LATER:
                    raise OrderRefused(f"{self._base}{path} answers {error.code}: {said}") from None
                fault: Exception = error
            except (OSError, http.client.HTTPException) as error:
                fault = error
            if time.monotonic() + pause > until:
                raise OSError(f"{self._base}{path} does not answer: {fault}")
            time.sleep(pause)
            pause = min(15.0, pause * 2)

    def _once(
        self, method: str, path: str, body: bytes | Path | None, *, content: str = "application/json"
    ) -> bytes:
        """Send one request; a file is read as it is sent."""
        if isinstance(body, Path):
            with body.open("rb") as file:
                size = {"Content-Length": str(body.stat().st_size)}
                return self._sent(method, path, file, {"Content-Type": content, **size})
        return self._sent(method, path, body, {"Content-Type": content})

    def _sent(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> bytes:
        given = {"Authorization": f"Bearer {self.token}", **headers}  # untranslated
        request = urllib.request.Request(self._base + path, body, given, method=method)  # noqa: S310
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
            return bytes(answer.read())
