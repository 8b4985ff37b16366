"""A small Prometheus over HTTP: keeps samples as scraped, and answers `/api/v1/query` in its format.

Of PromQL it knows one selector with `=` and `=~`, alone (an instant vector) or over a range (a matrix). A
series that the latest scrape of its target lacks is stale for the vector and still in the range, as in
Prometheus.
"""

import gzip
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs

from prometheus_client.parser import text_string_to_metric_families

from tests.http_server import http_server

LOOKBACK_SECONDS = 300
Labels = tuple[tuple[str, str], ...]


@dataclass
class Prometheus:
    now: float = 1_900_000_000.0
    token: str = ""
    series: dict[Labels, list[tuple[float, float]]] = field(default_factory=dict)
    answers: list[tuple[int, bytes]] = field(default_factory=list)
    """Given first, whatever is asked."""
    asked: list[str] = field(default_factory=list)
    _scraped: dict[Labels, float] = field(default_factory=dict)
    """By target: when it was scraped, or found gone."""

    def scrape(self, text: str, **target: str) -> None:
        """Scrape this text from a target; empty: the target is gone."""
        labels = tuple(sorted(target.items()))
        self._scraped[labels] = self.now
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                key = tuple(sorted({**sample.labels, **target, "__name__": sample.name}.items()))
                self.series.setdefault(key, []).append((self.now, sample.value))

    def result(self, query: str) -> tuple[str, list[Any]]:
        found = re.fullmatch(r"(\w*)\{(.*)\}(?:\[(\d+)s\])?", query)
        assert found, query
        name, inside, seconds = found.groups()
        wanted = re.findall(r'(\w+)(=~?)"((?:[^"\\]|\\.)*)"', inside)
        wanted += [("__name__", "=", name)] if name else []
        chosen = [
            (labels, samples)
            for labels, samples in self.series.items()
            if all(_is(dict(labels).get(label, ""), how, value) for label, how, value in wanted)
        ]
        if seconds:
            since = self.now - int(seconds)
            ranged = [(dict(one), [[at, repr(x)] for at, x in xs if at > since]) for one, xs in chosen]
            return "matrix", [{"metric": one, "values": xs} for one, xs in ranged if xs]
        alive = [(one, xs[-1]) for one, xs in chosen if not self._is_stale(dict(one), xs[-1][0])]
        return "vector", [{"metric": dict(one), "value": [self.now, repr(x)]} for one, (_, x) in alive]

    def _is_stale(self, labels: Mapping[str, str], at: float) -> bool:
        lately = [when for target, when in self._scraped.items() if set(target) <= set(labels.items())]
        return at < max(lately, default=0.0) or at < self.now - LOOKBACK_SECONDS


def _is(value: str, how: str, wanted: str) -> bool:
    return value == wanted if how == "=" else re.fullmatch(wanted, value) is not None


@contextmanager
def serving(prometheus: Prometheus) -> Iterator[str]:
    """Its address."""

    class QueryHandler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            prometheus.asked.append(form["query"][0])
            if prometheus.answers:
                return self._answer(*prometheus.answers.pop(0))
            if prometheus.token and self.headers.get("Authorization") != f"Bearer {prometheus.token}":
                return self._answer(401, b"Unauthorized\n")
            kind, result = prometheus.result(form["query"][0])
            body = {"status": "success", "data": {"resultType": kind, "result": result}}
            return self._answer(200, json.dumps(body).encode())

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            # As Prometheus does for whoever lets it.
            if "gzip" in self.headers.get("Accept-Encoding", ""):
                body = gzip.compress(body)
                self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http_server(QueryHandler) as address:
        yield address
