"""The control plane as a load generator in a cluster sees it: its order, and where its results go."""

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PATH = "/api/v1/benchmark-load/"
PATIENCE_SECONDS = 300.0
TIMEOUT_SECONDS = 60.0
_LATER = {408, 425, 429, 500, 502, 503, 504}
_BYTES = "application/octet-stream"


class OrderRefused(Exception):
    """The control plane refuses for good; the message is what it says."""


class ControlPlaneOrder:
    """The order behind a token. What does not answer is asked again for five minutes."""

    def __init__(self, url: str, token: str, *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._base = url.rstrip("/") + PATH
        self._token = token
        self._patience_seconds = patience_seconds

    @classmethod
    def of_file(cls, path: Path) -> "ControlPlaneOrder":
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

    def hand_in(self, records: Path, result: Mapping[str, Any]) -> None:
        """Raises OrderRefused, OSError."""
        if records.exists():
            self._asked("PUT", "records/", records.read_bytes(), content=_BYTES)
        self._asked("PUT", "result/", json.dumps(result).encode())

    def _asked(
        self, method: str, path: str, body: bytes | None = None, *, content: str = "application/json"
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
        self, method: str, path: str, body: bytes | None, *, content: str = "application/json"
    ) -> bytes:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": content}  # untranslated
        request = urllib.request.Request(self._base + path, body, headers, method=method)  # noqa: S310
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
            return bytes(answer.read())
