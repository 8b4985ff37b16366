"""A sync from a hub on this machine, beside `huggingface_hub.snapshot_download` from the same hub."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

from common.jobs.notes import DIRECTORY
from hubs.source import RepositorySource
from model_store.backends.local import LocalStore
from model_store.processes.job import StagingJob
from perf.registry.imports import published, shards
from perf.registry.table import MEBIBYTE, ROOT, directory, heading, line, timed
from tests.hubs.hub_server import HubServer, hub_server

REPO = "acme/large"
PEER = "import sys, huggingface_hub as h; h.snapshot_download(sys.argv[1], local_dir=sys.argv[2])"
ROUNDS = 3


def measure(gigabytes: float) -> None:
    total = int(gigabytes * 1024) * MEBIBYTE
    with directory() as home, hub_server() as server:
        made = home / "made"
        made.mkdir()
        paths = [*shards(made, total_bytes=total), made / "config.json"]
        server.repository(REPO).commit({path.name: path.read_bytes() for path in paths})
        heading(f"Fetch of {total / 1024**3:.1f} GiB in {len(paths)} files from a hub on this machine")
        peer, ours = [], []
        # By turns, so that what else the machine does meets both.
        for number in range(ROUNDS):
            target = home / f"peer-{number}"
            peer.append(timed(lambda target=target: _snapshot_download(server, target)))
            store = LocalStore(home / f"store-{number}")
            ours.append(timed(lambda store=store: _fetched(server, store)))
        rate = total / MEBIBYTE
        line("huggingface_hub.snapshot_download", f"{rate / min(peer):,.0f} MiB/s", "(the peer)")
        line("sync: fetch, verify, judge, publish", f"{rate / min(ours):,.0f} MiB/s", "")
        ratio = min(peer) / min(ours)
        line("  beside snapshot_download", f"{ratio:.2f} x", ">= 1.00 x", holds=ratio >= 1)
        store = LocalStore(home / "killed")
        left = total - _killed_half_way(server, store, total)
        before = sum(server.sent.values())
        _fetched(server, store)
        again = sum(server.sent.values()) - before
        line("killed half way, bytes left", f"{left:,}", "")
        ratio = again / left
        line("  bytes sent to finish", f"{again:,} ({ratio:.3f} x)", "<= 1.05 x", holds=ratio <= 1.05)


def _job(server: HubServer, store: LocalStore) -> StagingJob:
    source = RepositorySource(server.url, REPO, "main", trusted_hosts=(urlsplit(server.url).netloc,))
    return StagingJob(str(store.root), "1", source)


def _fetched(server: HubServer, store: LocalStore) -> None:
    published(store, _job(server, store))


def _snapshot_download(server: HubServer, target: Path) -> None:
    environment = os.environ | {
        # Another name than that of the host of the files, as on the public hub: it wants to see the redirect.
        "HF_ENDPOINT": server.url.replace("127.0.0.1", "localhost"),
        "HF_HOME": str(target.with_name("hf")),
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }
    subprocess.run([sys.executable, "-c", PEER, REPO, str(target)], check=True, cwd=ROOT, env=environment)


def _killed_half_way(server: HubServer, store: LocalStore, total: int) -> int:
    """Bytes that the hub had sent when the process that fetches was killed."""
    before = sum(server.sent.values())
    notes = store.root.with_name("killed-job")
    notes.mkdir()
    command = _job(server, store).spec("killed", "perf").argv
    environment = os.environ | {DIRECTORY: str(notes)}
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, env=environment)
    while (sent := sum(server.sent.values()) - before) < total // 2:
        assert process.poll() is None, "it was over before it could be killed"
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return sent
