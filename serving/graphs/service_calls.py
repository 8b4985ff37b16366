"""Tasks that are services: their calls go through the gateway, which knows the released version.

A full gateway or service is waited for while the item has time: the queue behind fills, and the entry holds
what comes next.
"""

import http.client
import json
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any, ClassVar
from urllib.parse import urlsplit

from serving.graphs.errors import GraphError, ItemExpired, ItemFailed
from serving.worker_command import GATEWAY_URL

KEY_VARIABLE = "SLIPWAY_GATEWAY_KEY"
"""Key of a client, where the service's team demands one."""
FULL, TIMED_OUT = (429, 503), 504
LATE_SECONDS = 0.1
SHORTEST_WAIT, LONGEST_WAIT = 0.05, 2.0

deadlines: ContextVar[Sequence[float]] = ContextVar("slipway_item_deadlines", default=())
"""Monotonic times by which the items of the batch that runs must be over; shorter than it: none are known."""


class ServiceCalls:
    """A task that is a service: the items of a batch are its requests side by side."""

    service_name: ClassVar[str]
    path: ClassVar[str]
    in_flight: ClassVar[int]
    timeout_seconds: ClassVar[float]

    def load(self, _files: Any) -> None:
        """Raises GraphError where nobody says where the gateway is."""
        address = urlsplit(os.environ.get(GATEWAY_URL, ""))
        if address.scheme not in ("http", "https") or not address.hostname:
            raise GraphError(
                f"the task {self.service_name} is a service: set {GATEWAY_URL} to the address of the "
                "gateway, like http://127.0.0.1:8080"
            )
        self._is_secure, self._host, self._port = address.scheme == "https", address.hostname, address.port
        self._target = f"{address.path.rstrip('/')}/{self.service_name}{self.path}"
        self._pool = ThreadPoolExecutor(self.in_flight)

    def answers(self, values: Sequence[Any]) -> list[Any]:
        """Return the answer of each, or the error that it failed with."""
        latest = time.monotonic() + self.timeout_seconds
        given = deadlines.get()
        untils = [min(latest, one) for one in given] if len(given) == len(values) else [latest] * len(values)
        return list(self._pool.map(self._answer, values, untils))

    def _answer(self, value: Any, until: float) -> Any:
        is_binary = isinstance(value, bytes)
        body = value if is_binary else json.dumps(value).encode()
        kind = "application/octet-stream" if is_binary else "application/json"
        pause = SHORTEST_WAIT
        while (left := until - time.monotonic()) > 0:
            try:
                status, asked, data = self._post(body, kind, left)
            except TimeoutError:
                break
            except (OSError, ValueError, http.client.HTTPException) as error:
                return ItemFailed(f"{self.service_name} does not answer: {type(error).__name__}: {error}")
            if status < 400:
                return data
            if status == TIMED_OUT:
                break
            if status not in FULL:
                return ItemFailed(f"{self.service_name} answered {status}: {_detail(data)}")
            # Somebody who says when to come again is believed, up to the item's own end.
            wait = asked if asked is not None else pause
            time.sleep(max(0.0, min(wait, until - time.monotonic())))
            pause = min(LONGEST_WAIT, 2 * pause)
        # The executor ends an item whose deadline has passed; that reason should be the first.
        time.sleep(max(0.0, until + LATE_SECONDS - time.monotonic()))
        return ItemExpired(f"{self.service_name} did not answer in time")

    def _post(self, body: bytes, kind: str, left: float) -> tuple[int, float | None, Any]:
        """Return status, seconds to wait before another try, and the answer, read where it is JSON."""
        make = http.client.HTTPSConnection if self._is_secure else http.client.HTTPConnection
        connection = make(self._host, self._port, timeout=left)
        headers = {"content-type": kind, "x-slipway-timeout-ms": str(max(1, int(left * 1000)))}
        if key := os.environ.get(KEY_VARIABLE):
            headers["authorization"] = f"Bearer {key}"
        try:
            connection.request("POST", self._target, body, headers)
            answer = connection.getresponse()
            data: Any = answer.read()
            if answer.headers.get_content_type().endswith("json"):
                data = json.loads(data)
            return answer.status, _seconds(answer.headers.get("retry-after")), data
        finally:
            connection.close()


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isdecimal() else None


def _detail(data: Any) -> str:
    if isinstance(data, dict):
        return str(data.get("detail") or data.get("error") or data)[:300]
    return str(data.decode(errors="replace") if isinstance(data, bytes) else data)[:300]
