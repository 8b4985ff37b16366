"""What `slipway-server backup` and `restore` take: `python -m perf.restore [--gigabytes 1]`.

PostgreSQL of the distribution with its own settings, and its client. The database gets GPU readings (most of
its bytes) and audit entries, each signed and chained; the store gets a version. Both are lost, then `restore`
runs, then `prepare`, and a web until it answers. Seconds are those of the clock.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from perf.required import RequiredFigure
from perf.required import report as required
from slipway.client import Client, at
from tests.e2e.conftest import write_version
from tests.production.database_server import DatabaseServer
from tests.production.site import Host, eventually

READINGS = """
INSERT INTO gpu_health_storedreading (
  node_id, source, fault, kind, at, gpu_bus_id, gpu_uuid, details, raw, origin, boot_id, received_at)
SELECT (SELECT min(id) FROM clusters_node), 'kernel', 'xid-94', 'fault', now() - n * interval '1 second',
  '0000:3b:00', 'GPU-' || md5(n::text), '{"pid": 4711}',
  'NVRM: Xid (PCI:0000:3b:00): 94, pid=4711, ' || repeat(md5(n::text), 4), n::text, md5('boot'), now()
FROM generate_series(1, %s::bigint) AS n
"""
ENTRIES = """
import sys
from django.db import transaction
from clusters.models import Cluster, Node
from common import audit, clock
from common.actor import Actor
Node.objects.create(cluster=Cluster.objects.get(), name="perf", uid="perf", seen_at=clock.now())
for start in range(0, %d, 1000):
    with transaction.atomic():
        for number in range(start, start + 1000):
            audit.record(Actor.system("perf"), "perf.fill", subject="perf", reason=f"Entry {number}.")
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--readings", type=int, default=1_000_000)
    parser.add_argument("--entries", type=int, default=2_000)
    parser.add_argument("--gigabytes", type=float, default=1.0, help="of files of a model")
    options = parser.parse_args()
    rows: list[RequiredFigure] = []

    @contextmanager
    def timed(what: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        rows.append(RequiredFigure(what, f"{time.monotonic() - began:.1f} s"))

    server = DatabaseServer()
    with tempfile.TemporaryDirectory(prefix="slipway-perf-") as home:
        site = server.site(Path(home))
        try:
            host = site.host("first")
            host.prepare()
            done(host.run("manage", "shell", "-v", "0", "-c", ENTRIES % options.entries))
            server.sql(READINGS, options.readings)
            server.sql("ANALYZE")
            fill_store(host, options.gigabytes)
            size = server.sql("SELECT pg_size_pretty(pg_database_size(current_database()))")
            rows.append(RequiredFigure("database", f"{size}, {options.entries:,} audit entries"))
            rows.append(RequiredFigure("files of models", f"{options.gigabytes:g} GB"))
            backups = Path(home) / "backups"
            with timed("backup"):
                done(host.run("backup", str(backups)))
            for role in site.roles:
                role.stop()
            server.sh("dropdb slipway && createdb slipway")
            second = site.host("second")
            with timed("restore"):
                done(second.run("restore", str(backups)))
            with timed("prepare, and a web that answers"):
                second.prepare()
                second.web()
        finally:
            site.close()
            server.stop()
    return required(rows)


def fill_store(host: Host, gigabytes: float) -> None:
    """Import a version of so many bytes, as noise."""
    source = write_version(host.home / "imports" / "v1", seed=1)
    weights = np.random.default_rng(1).bytes(int(gigabytes * 1_000_000_000))
    save_file({"noise": np.frombuffer(weights, dtype=np.uint8)}, source / "model.safetensors")
    host.start("sweeper")
    host.web()
    admin = Client(host.url, host.token)
    admin.create(at("models"), {"name": "perf", "task": "text-generation"})
    admin.create(at("models", "perf", "versions"), {"source": str(source), "version": "v1"})
    eventually(lambda: admin.get(at("models", "perf", "versions", "v1"))["state"] == "ready", seconds=600)


def done(command: subprocess.CompletedProcess[str]) -> None:
    assert command.returncode == 0, command.stderr


if __name__ == "__main__":
    sys.exit(main())
