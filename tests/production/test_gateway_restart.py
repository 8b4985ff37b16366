"""A restart of the role `gateway`, as an upgrade or a crash of it does, under load."""

import signal
import threading
from collections import Counter
from pathlib import Path

import httpx2
import pytest

from tests.production.site import Site, eventually

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]


class Load:
    """Clients that ask again and again, over connections that stay and over new ones."""

    def __init__(self, url: str) -> None:
        self.answers: Counter[object] = Counter()
        self._url = url
        self._done = threading.Event()
        self._clients = [threading.Thread(target=self._ask) for _ in range(4)]
        for client in self._clients:
            client.start()

    def _ask(self) -> None:
        with httpx2.Client(timeout=60) as client:
            while not self._done.wait(0.02):
                for headers in ({}, {"Connection": "close"}):
                    try:
                        self.answers[client.get(self._url, headers=headers).status_code] += 1
                    except httpx2.TransportError as error:
                        self.answers[repr(error)] += 1

    def end(self) -> None:
        self._done.set()
        for client in self._clients:
            client.join()


def answers(url: str) -> bool:
    try:
        return httpx2.get(url, timeout=10).status_code == 200
    except httpx2.TransportError:
        return False


def test_a_restart_of_the_gateway_refuses_no_client(tmp_path: Path):
    site = Site(tmp_path, on_sqlite=True)
    try:
        host = site.host()
        ready = f"http://127.0.0.1:{host.admin_port}/ready"
        gateway = host.start("gateway")
        eventually(lambda: answers(ready))
        load = Load(f"http://127.0.0.1:{host.gateway_port}/")
        try:
            for how in (signal.SIGUSR1, signal.SIGKILL):
                gateway.stop(how)
                gateway = host.start("gateway").says("Taking over the Envoy that runs")
        finally:
            load.end()
        # There is no route: Envoy itself answers so.
        assert set(load.answers) == {404}, load.answers
        assert load.answers.total() > 100
        assert gateway.stop() == 0
        assert not answers(ready)
    finally:
        site.close()
