"""`python -m serving.relay`: hears the workers of a cluster and reports them all, in one message a second.

For clusters whose pods may not reach the control plane, or are too many to do it one by one. It takes
heartbeats with tokens that the control plane has named, each for workers of its own deployment, reads
servers that send none (`serving.scraping`), and keeps of each worker only what it said last: whoever is
silent for 5 s is left out. When the control plane is away it goes on hearing, and tells what is true when
that is back.
"""

import argparse
import asyncio
import hashlib
import json
import logging
import secrets
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from serving import logs
from serving.fields import ProtocolError
from serving.hearing import LatestHeartbeats, TooLong, answer, hear_until_stopped, heartbeat_of
from serving.heartbeat_sender import HeartbeatSender
from serving.protocol import MAX_WORKERS_PER_REPORT, Heartbeat
from serving.relay_protocol import MOST_WORKERS, MachineReport, RelayAnswer, RelayReport, ScrapeTarget
from serving.scraping.scraper import Scraper
from serving.worker import listen

log = logging.getLogger(__name__)

HEARTBEATS = "/api/v1/heartbeats/"
REPORTS = "/api/v1/relay-reports/"
SCRAPE_EVERY_SECONDS = 1.0


class NotLetIn(Exception):
    """The token is of nobody who may report here."""


class Relay:
    """The last heartbeats of workers, the list of who they may be, and the report that follows."""

    def __init__(self) -> None:
        self._session = secrets.token_hex(8)
        self._sequence = 0
        self._heard = LatestHeartbeats(most=MOST_WORKERS, place="this relay")
        self._reporters: dict[str, str] = {}
        self._revision = ""
        self.targets: Sequence[ScrapeTarget] = ()

    @property
    def is_told(self) -> bool:
        """Whether the control plane has answered."""
        return bool(self._revision)

    def hear(self, token: str, heartbeat: Heartbeat) -> bool:
        """Whether its state is another one than before: worth telling at once. Raises NotLetIn,
        ProtocolError."""
        deployment = self._reporters.get(hashlib.sha256(token.encode()).hexdigest())
        if deployment is None:
            raise NotLetIn("this token is of no deployment here, or not known here yet")
        if deployment != heartbeat.deployment:
            raise NotLetIn(f"this token reports workers of {deployment}, not of {heartbeat.deployment}")
        before = self._heard.last_of(heartbeat.worker)
        if before is not None and before.deployment != deployment:
            raise NotLetIn(f"{heartbeat.worker} is another deployment's")
        return self.keep(heartbeat)

    def keep(self, heartbeat: Heartbeat) -> bool:
        """Keep a heartbeat, a scraped one, too. Raises ProtocolError."""
        return self._heard.keep(heartbeat)

    def compose(self) -> bytes:
        """The next report."""
        self._sequence += 1
        machines: dict[str, list[Any]] = {}
        for heartbeat in self._heard:
            machines.setdefault(heartbeat.machine, []).append(heartbeat.to_dict())
        return RelayReport(
            session=self._session,
            sequence=self._sequence,
            known=self._revision,
            machines=[
                MachineReport(machine=machine, workers=workers[first : first + MAX_WORKERS_PER_REPORT])
                for machine, workers in sorted(machines.items())
                for first in range(0, len(workers), MAX_WORKERS_PER_REPORT)
            ],
        ).encode()

    def learn(self, body: bytes) -> None:
        """Take what the control plane answers; what cannot be read changes nothing."""
        try:
            answer = RelayAnswer.decode(body)
        except ProtocolError as error:
            log.warning("the answer of the control plane cannot be read: %s", error)
            return
        if answer.reporters is not None:
            self._reporters = dict(answer.reporters)
            for heartbeat in self._heard:
                if heartbeat.deployment not in self._reporters.values():
                    self._heard.forget(heartbeat.worker)
        if answer.targets is not None:
            self.targets = answer.targets
        self._revision = answer.revision
        for one in answer.refused:
            log.info("%s was refused: %s", one.get("worker"), one.get("reason"))


class RelayApp:
    """The ASGI application that workers POST their heartbeats to; `GET /healthz` for the kubelet."""

    def __init__(self, relay: Relay, sender: HeartbeatSender) -> None:
        self._relay = relay
        self._sender = sender

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        status, said = await self._answer(scope, receive)
        await answer(send, status, json.dumps({"detail": said}).encode(), b"application/json")

    async def _answer(self, scope: Any, receive: Any) -> tuple[int, str]:
        if (scope["method"], scope["path"]) == ("GET", "/healthz"):
            is_told = self._relay.is_told
            return (200, "") if is_told else (503, "the control plane has not answered yet")
        if (scope["method"], scope["path"]) != ("POST", HEARTBEATS):
            return 404, f"POST heartbeats to {HEARTBEATS}"
        scheme, _, token = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1").partition(" ")
        try:
            if scheme.lower() != "bearer":
                raise NotLetIn("send the token of the deployment: Authorization: Bearer slp_...")
            if self._relay.hear(token.strip(), await heartbeat_of(receive)):
                self._sender.hurry()
        except NotLetIn as error:
            return 401, str(error)
        except TooLong as error:
            return 413, str(error)
        except ProtocolError as error:
            return 400, str(error)
        return 200, ""


async def serve(listener: Any, *, url: str, token_file: Path) -> None:
    """Until SIGTERM or SIGINT."""
    relay = Relay()
    sender = HeartbeatSender(
        f"{url.rstrip('/')}{REPORTS}", token_file=token_file, compose=relay.compose, answered=relay.learn
    )

    async def scrape() -> None:
        scraper = Scraper()
        while True:
            began = time.monotonic()
            for heartbeat in await scraper.read(relay.targets):
                relay.keep(heartbeat)
            await asyncio.sleep(max(0.05, began + SCRAPE_EVERY_SECONDS - time.monotonic()))

    await hear_until_stopped(RelayApp(relay, sender), listener, sender.run(), scrape())


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m serving.relay",
        description="Reports the workers of a cluster to the control plane, in one message a second.",
        allow_abbrev=False,
    )
    parser.add_argument("--url", required=True, help="of the control plane, https://...")
    parser.add_argument("--token-file", required=True, type=Path, help="file with the token of the cluster")
    parser.add_argument("--host", default="127.0.0.1", help="address to hear workers on")
    parser.add_argument("--port", type=int, default=8080)
    given = parser.parse_args(arguments)
    logs.set_up("relay")
    try:
        listener = listen(given.host, given.port)
    except OSError as error:
        sys.stderr.write(f"serving.relay: --port {given.port}: {error.strerror or error}\n")
        return 2
    asyncio.run(serve(listener, url=given.url, token_file=given.token_file))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
