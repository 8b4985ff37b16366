"""The gateway's files: our state, what was observed of each target, and what Envoy reads."""

import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from gateway.backends.envoy.client_access import filter_messages
from gateway.backends.envoy.clusters import endpoint_messages
from gateway.backends.envoy.files import held, read_json, replace_json
from gateway.backends.envoy.layout import EnvoyFileLayout
from gateway.backends.envoy.messages.base import DiscoveryResponse, Typed
from gateway.backends.state import GatewayState
from gateway.client_access import ClientAccess
from gateway.errors import GatewayError
from gateway.routes import WorkerEndpoint


@dataclass(frozen=True, slots=True)
class EndpointObservation:
    at: datetime
    endpoints: tuple[WorkerEndpoint, ...]


class EnvoyFileStore:
    def __init__(self, layout: EnvoyFileLayout) -> None:
        self.layout = layout
        self._loaded: tuple[tuple[int, int, int], GatewayState] | None = None

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Only its holder writes the state and what is rendered from it. Raises GatewayBusy."""
        with held(self.layout.lock):
            yield

    @contextmanager
    def target_lock(self, target: str) -> Iterator[None]:
        """Only its holder writes the target's endpoints. May be taken inside `lock`, never around it."""
        with held(self.layout.target_lock(target)):
            yield

    def load(self) -> GatewayState:
        """Return the state in the file, read again only when the file was replaced."""
        try:
            status = self.layout.state.stat()
        except FileNotFoundError:
            return GatewayState()
        which = (status.st_ino, status.st_mtime_ns, status.st_size)
        if self._loaded is None or self._loaded[0] != which:
            document = read_json(self.layout.state)
            self._loaded = (which, GatewayState() if document is None else GatewayState.from_dict(document))
        return self._loaded[1]

    def save(self, state: GatewayState) -> None:
        replace_json(self.layout.state, state.to_dict())

    def observation(self, target: str) -> EndpointObservation | None:
        document = read_json(self.layout.target(target))
        if document is None:
            return None
        try:
            endpoints = tuple(
                WorkerEndpoint(str(address), int(port), is_spare=is_spare)
                for is_spare, places in ((False, document["endpoints"]), (True, document.get("spare", ())))
                for address, port in places
            )
            return EndpointObservation(datetime.fromisoformat(document["observed_at"]), endpoints)
        except (KeyError, TypeError, ValueError):
            raise GatewayError(f"{self.layout.target(target)} is damaged: remove it.") from None

    def save_observation(self, target: str, seen: EndpointObservation) -> None:
        path = self.layout.target(target)
        path.parent.mkdir(parents=True, exist_ok=True)
        first, spare = (
            [[one.address, one.port] for one in seen.endpoints if one.is_spare is is_spare]
            for is_spare in (False, True)
        )
        replace_json(path, {"observed_at": seen.at.isoformat(), "endpoints": first, "spare": spare})

    def ensure_endpoints(self, target: str) -> None:
        """Give the target an endpoint file, without which Envoy refuses its cluster."""
        if self.layout.endpoints(target).exists():
            return
        with self.target_lock(target):
            if not self.layout.endpoints(target).exists():
                seen = self.observation(target)
                self.put_endpoints(target, seen.endpoints if seen else ())

    def ensure_filters(self) -> None:
        """Give each filter a file, without which Envoy answers nothing; keys come with the first look."""
        for name, resources in filter_messages(ClientAccess()).items():
            path = self.layout.extension(name)
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                self.put(path, resources)

    def put_endpoints(
        self, target: str, endpoints: Sequence[WorkerEndpoint], *, taken: str | None = None
    ) -> str:
        path = self.layout.endpoints(target)
        path.parent.mkdir(parents=True, exist_ok=True)
        return self.put(path, endpoint_messages(target, endpoints), taken=taken)

    def put(self, path: Path, resources: list[Typed], *, taken: str | None = None) -> str:
        """Make the file hold these resources; returns its version.

        A file that says the same already is left alone if Envoy has `taken` its version.
        """
        present = read_json(path)
        if taken and present and present["resources"] == resources and present["version_info"] == taken:
            return taken
        # Never used before, whatever has become of the state: Envoy naming it proves that it read this file.
        document: DiscoveryResponse = {"version_info": secrets.token_hex(8), "resources": resources}
        replace_json(path, document)
        return document["version_info"]

    def version(self, path: Path) -> str | None:
        present = read_json(path)
        return str(present["version_info"]) if present else None

    def forget_target(self, target: str) -> None:
        with self.target_lock(target):
            shutil.rmtree(self.layout.endpoints(target).parent, ignore_errors=True)
            self.layout.target(target).unlink(missing_ok=True)
