"""Envoy's admin endpoint: which configuration it has taken, what it counts, whether it runs."""

import http.client
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import orjson

from common import tracing
from gateway.errors import GatewayUnreachable

TIMEOUT_SECONDS = 2.0
TAKEN_WITHIN_SECONDS = 3.0

ROUTES = "http.slipway.rds.slipway"
CLUSTERS = "cluster_manager.cds"
LISTENERS = "listener_manager.lds"


def endpoints_of(target: str) -> str:
    return f"cluster.{target}"


class ConfigNotApplied(GatewayUnreachable):
    """Envoy runs, and has neither taken nor refused what was put before it in time."""


@dataclass(frozen=True, slots=True)
class ConfigStatus:
    """Envoy's status of one of its sources."""

    version: str | None
    """Last one accepted; None before the first, or when Envoy has no such source."""
    refused: int
    """Versions refused or not readable since it started."""


class AdminConnection:
    """A connection, and so one Envoy process for as long as it lasts."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)

    def open(self) -> None:
        try:
            self._http.connect()
        except OSError as error:
            raise self._unreachable(error) from None

    def close(self) -> None:
        self._http.close()

    def get(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        return self._ask("GET", path, query)

    def post(self, path: str) -> bytes:
        return self._ask("POST", path, None)

    def _ask(self, verb: str, path: str, query: Mapping[str, str] | None) -> bytes:
        with tracing.span(f"envoy {verb} {path}", "client", attributes={"server.port": self._port}):
            return self._answer(verb, path, query)

    def _answer(self, verb: str, path: str, query: Mapping[str, str] | None) -> bytes:
        if self._http.sock is None:
            raise GatewayUnreachable(f"The gateway's admin endpoint on port {self._port} hung up.")
        try:
            self._http.request(verb, f"{path}?{urlencode(query, quote_via=quote)}" if query else path)
            answer = self._http.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from None
        if answer.status != 200:
            raise GatewayUnreachable(f"The gateway's admin endpoint answers {answer.status} to {path}.")
        return body

    def _unreachable(self, error: Exception) -> GatewayUnreachable:
        reason = str(error) or type(error).__name__
        return GatewayUnreachable(
            f"The gateway's admin endpoint on port {self._port} does not answer ({reason})."
        )

    def json(self, path: str, query: Mapping[str, str]) -> Any:
        try:
            return orjson.loads(self.get(path, query))
        except ValueError:
            raise GatewayUnreachable(
                f"What answers on port {self._port} is no Envoy of ours: its {path} is not JSON."
            ) from None


class AdminClient:
    def __init__(self, *, port: int, node_id: str) -> None:
        self._port = port
        self._node_id = node_id

    @contextmanager
    def connected(self) -> Iterator[AdminConnection]:
        """Raises GatewayUnreachable when nothing answers, or another gateway does."""
        connection = AdminConnection(self._port)
        try:
            connection.open()
            yield connection
        finally:
            connection.close()

    def epoch(self, connection: AdminConnection) -> str:
        """Changes with every start of Envoy, and with it every counter. Raises GatewayUnreachable."""
        dump = connection.json("/config_dump", {"mask": "bootstrap.node.id,last_updated"})
        try:
            (bootstrap,) = dump["configs"]
            node_id, started = bootstrap["bootstrap"]["node"]["id"], str(bootstrap["last_updated"])
        except (KeyError, TypeError, ValueError):
            raise GatewayUnreachable(f"What answers on port {self._port} is no Envoy of ours.") from None
        if node_id != self._node_id:
            raise GatewayUnreachable(
                f"The Envoy on admin port {self._port} belongs to another home ({node_id}): "
                "give this one another SLIPWAY_GATEWAY_ADMIN_PORT."
            )
        return started

    def taken(self, connection: AdminConnection, source: str) -> ConfigStatus:
        found = self.stats(
            connection, rf"^{re.escape(source)}\.(version_text|update_rejected|update_failure)$"
        )
        version = found.get(f"{source}.version_text")
        refused = (found.get(f"{source}.{name}", 0) for name in ("update_rejected", "update_failure"))
        return ConfigStatus(version=str(version) if version else None, refused=sum(map(int, refused)))

    def stats(self, connection: AdminConnection, pattern: str) -> Mapping[str, Any]:
        """Counters, gauges and texts by name; the buckets of histograms, by theirs, under `histograms`."""
        body = connection.json(
            "/stats", {"format": "json", "filter": pattern, "histogram_buckets": "cumulative"}
        )
        found: dict[str, Any] = {}
        for entry in body.get("stats", ()):
            if "histograms" in entry:
                found["histograms"] = {one["name"]: one["buckets"] for one in entry["histograms"]}
            else:
                found[entry["name"]] = entry["value"]
        return found

    def await_taken(
        self, connection: AdminConnection, source: str, *, version: str, refused_before: int
    ) -> bool:
        """True when Envoy has taken this version, False when it has refused it.

        Raises ConfigNotApplied when it does neither in time.
        """
        deadline = time.monotonic() + TAKEN_WITHIN_SECONDS
        pause = 0.001
        while True:
            seen = self.taken(connection, source)
            if seen.version == version:
                return True
            if seen.refused > refused_before:
                return False
            if time.monotonic() >= deadline:
                raise ConfigNotApplied(
                    f"The gateway has not taken version {version} of its {source} within "
                    f"{TAKEN_WITHIN_SECONDS:g} s; it is at {seen.version}. The file is in place."
                )
            time.sleep(pause)
            pause = min(pause * 1.5, 0.02)

    def warming(self, connection: AdminConnection, targets: tuple[str, ...]) -> tuple[str, ...]:
        """Return the targets whose clusters take no requests yet: unknown, or not health-checked once."""
        names = "|".join(map(re.escape, targets))
        found = self.stats(connection, rf"^cluster\.({names})\.warming_state$")
        return tuple(name for name in targets if found.get(f"cluster.{name}.warming_state", 1))

    def healthy_hosts(self, connection: AdminConnection, target: str) -> list[tuple[str, int]]:
        body = connection.json("/clusters", {"format": "json", "filter": f"^{re.escape(target)}$"})
        hosts = []
        for cluster in body.get("cluster_statuses", ()):
            if cluster.get("name") != target:
                continue
            for host in cluster.get("host_statuses", ()):
                if host.get("priority"):
                    continue  # spare
                health = host.get("health_status", {})
                if set(health) <= {"eds_health_status"} and health.get("eds_health_status") == "HEALTHY":
                    socket = host["address"]["socket_address"]
                    hosts.append((socket["address"], socket["port_value"]))
        return hosts
