"""The answer of a Prometheus to a query: whatever somebody's exporter counts.

https://prometheus.io/docs/prometheus/latest/querying/api/
"""

import json
from math import isfinite
from urllib.parse import urlencode

from capacity.queues.base import QueueAddress, QueueSample, QueueSilent
from capacity.queues.http import post


class PrometheusQueue:
    """The sum of an instant query is the number of items that wait."""

    def __init__(self, address: QueueAddress) -> None:
        self._address = address

    def sample(self) -> QueueSample:
        form = urlencode({"query": self._address.subject, "timeout": "3s"}).encode()
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        if self._address.secret:
            headers["Authorization"] = f"Bearer {self._address.secret}"
        status, body = post(f"{self._address.url.rstrip('/')}/api/v1/query", form, headers)
        try:
            answer = json.loads(body)
            if answer["status"] != "success":
                raise QueueSilent(f"Prometheus refuses: {answer.get('error', status)}")
            kind, result = answer["data"]["resultType"], answer["data"]["result"]
            values = [result] if kind == "scalar" else [one["value"] for one in result]
            waiting = sum(float(value) for _at, value in values)
        except (ValueError, KeyError, TypeError):
            raise QueueSilent(
                f"It answers {status}, and not with an instant vector as Prometheus does."
            ) from None
        if not values:
            raise QueueSilent("Prometheus knows no series of this query: no data is not an empty queue.")
        if not (isfinite(waiting) and waiting >= 0):
            raise QueueSilent(f"The query gives {waiting}, which is no number of items.")
        return QueueSample(waiting)
