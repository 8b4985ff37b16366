"""The program that machines run, against the real server."""

import asyncio
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest

from clusters.models import Cluster
from clusters.services.files_tokens import issue_files_token
from tests.cast import SYSTEM, team
from tests.clusters.live.rig import Site
from tests.clusters.model_files import deployed, stored_version
from tests.patience import PATIENCE_SECONDS

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.stack]
WEIGHTS = os.urandom(20_000_000)


@pytest.fixture
def at_work(tmp_path, settings, transactional_db):
    settings.SLIPWAY_STORE_DIR = tmp_path / "models"
    cluster = Cluster.objects.create(name="gpu", kind="kubernetes", team=team("vision"))
    version = stored_version(cluster.team, {"config.json": b"{}", "model.safetensors": WEIGHTS})
    deployed(cluster, version)
    return version, issue_files_token(actor=SYSTEM, cluster=cluster).text


async def test_a_machine_fetches_a_version_from_the_real_server(site: Site, at_work, tmp_path) -> None:
    version, token = at_work
    command = [
        *(sys.executable, "-m", "serving.fetch", f"--url=http://{site.address}"),
        *(f"--version-id={version.pk}", f"--digest={version.digest}", f"--cache={tmp_path / 'machine'}"),
    ]

    def fetch(token: str) -> "subprocess.CompletedProcess[str]":
        env = {**os.environ, "SLIPWAY_STORE_TOKEN": token}
        return subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=PATIENCE_SECONDS * 4, check=False
        )

    refused = await asyncio.to_thread(fetch, "slp_nonsense")
    assert refused.returncode == 3, refused.stderr
    assert "This token is unknown" in refused.stderr
    done = await asyncio.to_thread(fetch, token)
    assert done.returncode == 0, done.stderr
    directory = tmp_path / "machine/versions" / version.digest
    assert (directory / "model.safetensors").read_bytes() == WEIGHTS
    assert {path.name for path in directory.iterdir()} == {"config.json", "model.safetensors"}


async def test_whoever_leaves_in_the_middle_leaves_no_file_open(
    site: Site, at_work, client: httpx2.AsyncClient
) -> None:
    version, token = at_work
    sha256 = next(file.sha256 for file in [f async for f in version.files.order_by("-size")])
    headers = {"Authorization": f"Bearer {token}"}
    for _ in range(3):
        async with client.stream("GET", f"model-files/{version.pk}/{sha256}/", headers=headers) as answer:
            assert answer.status_code == 200
            async for _piece in answer.aiter_raw(1_000):
                break
    async with asyncio.timeout(PATIENCE_SECONDS):
        while any(sha256 in place for place in _open_files()):
            await asyncio.sleep(0.05)


def _open_files() -> list[str]:
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(str(descriptor.readlink()))
    return found
