"""Paths of Envoy's files, its ports, and how long it waits for clients."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

LISTENER = "slipway"
ROUTES = "slipway"


@dataclass(frozen=True, slots=True)
class EnvoyFileLayout:
    run_dir: Path
    """Writable directory of its own; everything below it belongs to the gateway."""
    log_dir: Path
    bind: str
    """IP address that clients reach the gateway at."""
    port: int
    admin_port: int
    """On the loopback address."""
    header_seconds: int = 15
    """A client has sent the header of its request within them."""
    idle_seconds: int = 60
    """A client may keep its connection so long without a request."""
    request_seconds: int = 300
    """The whole of a request has come within them, up to its body's last byte; 32 MiB over a slow line."""

    otlp: str = ""
    """Where it POSTs its spans; empty: it has none."""

    @property
    def bootstrap(self) -> Path:
        return self.run_dir / "bootstrap.json"

    @property
    def state(self) -> Path:
        return self.run_dir / "state.json"

    @property
    def lock(self) -> Path:
        return self.run_dir / "lock"

    @property
    def listeners(self) -> Path:
        return self.run_dir / "lds" / "listeners.json"

    @property
    def clusters(self) -> Path:
        return self.run_dir / "cds" / "clusters.json"

    @property
    def routes(self) -> Path:
        return self.run_dir / "rds" / "routes.json"

    def extension(self, name: str) -> Path:
        """Return the file of a filter that is found by itself, in a directory of its own as endpoints are."""
        return self.run_dir / "ecds" / name / "filter.json"

    @property
    def targets(self) -> Path:
        """Return the directory with one file per target: its workers as last observed, and when."""
        return self.run_dir / "targets"

    def target(self, name: str) -> Path:
        return self.targets / f"{name}.json"

    def target_lock(self, name: str) -> Path:
        # A fixed number of files: a lock's file must never be removed, and targets come and go.
        return self.targets / f"{crc32(name.encode()) % 64}.lock"

    def endpoints(self, target: str) -> Path:
        # A directory for each, so that a change wakes one cluster of Envoy and not all of them.
        return self.run_dir / "eds" / target / "endpoints.json"

    @property
    def access_log(self) -> Path:
        return self.log_dir / "gateway-access.log"

    @property
    def node_id(self) -> str:
        """Tells this home's Envoy from another one that happens to have the admin port."""
        return f"slipway-{hashlib.sha256(str(self.run_dir.resolve()).encode()).hexdigest()[:16]}"
