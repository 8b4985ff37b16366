"""What webs on PostgreSQL cost and keep: `python -m perf.production [--clients 20] [--requests 40]`.

PostgreSQL and Valkey of its own, the roles as docs/PRODUCTION.md has them. Clients read lists over REST:
first from one web, then, in the same run, spread over two of the same home. Own CPU is that of the web
processes (user and system); connections are those that PostgreSQL counts while the clients are at work.
"""

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import psutil

from perf.required import Row, at_most
from perf.required import report as required
from tests.production.site import Host, Role, Site

PATHS = ("/api/v1/models/", "/api/v1/services/", "/api/v1/releases/", "/api/v1/clusters/")
BOUND = 24


@dataclass
class Seen:
    """Of all clients together."""

    statuses: Counter[str] = field(default_factory=Counter)
    connections: int = 0
    cpu_seconds: float = 0.0

    @property
    def requests(self) -> int:
        return sum(self.statuses.values())

    @property
    def errors(self) -> int:
        return self.requests - self.statuses["200"]

    @property
    def milliseconds(self) -> float:
        """Own CPU of the webs per request."""
        return self.cpu_seconds / max(self.requests, 1) * 1_000


def cpu_of(webs: Sequence[Role]) -> float:
    times = [psutil.Process(web.process.pid).cpu_times() for web in webs]
    return sum(one.user + one.system for one in times)


def measure(site: Site, hosts: Sequence[Host], webs: Sequence[Role], *, clients: int, requests: int) -> Seen:
    """`clients` at a time, each with a connection of its own to one of the hosts."""
    seen, lock = Seen(), threading.Lock()

    def read(number: int) -> None:
        host = hosts[number % len(hosts)]
        headers = {"Authorization": f"Bearer {host.token}"}
        with httpx2.Client(base_url=host.url, headers=headers, timeout=120) as client:
            for turn in range(requests):
                try:
                    status = str(client.get(PATHS[turn % len(PATHS)]).status_code)
                except httpx2.TransportError as error:
                    status = type(error).__name__
                with lock:
                    seen.statuses[status] += 1

    before = cpu_of(webs)
    threads = [threading.Thread(target=read, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        with suppress(Exception):  # PostgreSQL may have no connection left for us: that is told by the errors
            seen.connections = max(seen.connections, site.connections())
        time.sleep(0.1)
    seen.cpu_seconds = cpu_of(webs) - before
    return seen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--many", type=int, default=100, help="clients at a time, to see the bound")
    parser.add_argument("--requests", type=int, default=40, help="of each client")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="slipway-perf-") as home:
        site = Site(Path(home), SLIPWAY_DATABASE_CONNECTIONS=str(BOUND), SLIPWAY_LOG_LEVEL="WARNING")
        try:
            return compare(site, options)
        finally:
            site.close()


def compare(site: Site, options: argparse.Namespace) -> int:
    first = site.host()
    first.prepare()
    webs = [first.web()]
    one: list[Seen] = []
    two: list[Seen] = []
    many = measure(site, [first], webs, clients=options.many, requests=max(options.requests // 4, 1))
    second = first.twin()
    webs.append(second.web())
    measure(site, [first, second], webs, clients=4, requests=8)  # what is loaded on first use
    for _ in range(options.rounds):
        one.append(measure(site, [first], webs[:1], clients=options.clients, requests=options.requests))
        two.append(measure(site, [first, second], webs, clients=options.clients, requests=options.requests))
    alone, shared = (statistics.median(seen.milliseconds for seen in rounds) for rounds in (one, two))
    rows = [
        Row("own CPU per request, one web", f"{alone:.1f} ms"),
        Row("own CPU per request, two webs", f"{shared:.1f} ms"),
        at_most("the same, two webs / one", shared / alone, 1.25),
        at_most("requests that failed", sum(seen.errors for seen in (*one, *two, many)), 0),
        at_most(f"connections of one web, {options.many} clients", many.connections, BOUND),
        at_most("connections of two webs", max(seen.connections for seen in two), 2 * BOUND),
    ]
    return required(rows)


if __name__ == "__main__":
    sys.exit(main())
