"""Clients that read lists over REST, each with a connection of its own."""

import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import httpx2
import psutil

from tests.production.site import Host, Role, Site

PATHS = ("/api/v1/models/", "/api/v1/services/", "/api/v1/releases/", "/api/v1/clusters/")


@dataclass
class ListLoad:
    """Figures of all clients together."""

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


def measure(
    site: Site, hosts: Sequence[Host], webs: Sequence[Role], *, clients: int, requests: int
) -> ListLoad:
    """`clients` at a time, each with a connection of its own to one of the hosts."""
    seen, lock = ListLoad(), threading.Lock()

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
