"""The sending process itself: killed and continued, with a secret that nobody else sees."""

import json
from pathlib import Path

import pytest

from hubs.processes.export import FILES
from hubs.target import RepositoryTarget
from model_store.backends.local import LocalStore
from model_store.processes.job import StagingJob
from models_registry.importing.directory import DirectorySource, import_directory
from tests.hubs.hub_server import hub_server
from tests.models_registry import builders as b
from tests.patience import eventually

pytestmark = [pytest.mark.stack, pytest.mark.slow]

REPO, KEY, TOKEN = "acme/tiny", "export-7", "hf_secret"
MIB = 1024 * 1024
SIZE, PART_BYTES = 24 * MIB, MIB


@pytest.mark.timeout(120)
def test_killed_again_and_again_it_sends_what_is_left_and_commits_once(tmp_path: Path, jobs) -> None:
    store = LocalStore(tmp_path / "store")
    large = {"model.safetensors": b.weights(SIZE // 4)}
    b.write(tmp_path / "roots/model", b.model_files() | large)
    with store.staging("1") as staging:
        made = import_directory(DirectorySource(str(tmp_path / "roots"), "model"), staging, report=print)
    store.publish("1", made.manifest)
    with store.staging(KEY) as staging:
        listed = [(file.path, file.size, file.sha256) for file in made.manifest.files]
        staging.write_note(FILES, json.dumps(listed).encode())
    with hub_server() as hub:
        hub.repository(REPO).commit({".gitattributes": b""})
        hub.tokens[REPO] = {TOKEN}
        hub.writing.part_bytes, hub.writing.seconds_per_part = PART_BYTES, 0.05
        target = RepositoryTarget(
            hub.url,
            REPO,
            "main",
            title="tiny:v1",
            description="Slipway-Export: 7",
            marker="Slipway-Export: 7",
            trusted_hosts=(hub.url.removeprefix("http://"),),
            patience_seconds=5,
        )
        job = StagingJob(str(store.root), KEY, target, secret=TOKEN)
        for parts in (4, 9, 15):
            jobs.start(job)
            eventually(lambda least=parts: hub.writing.put_bytes >= least * PART_BYTES)
            program = jobs.program()
            assert TOKEN not in " ".join([*program.cmdline(), *program.environ().values()])
            jobs.kill()
            assert not store.is_busy(KEY)
        assert hub.writing.calls["commit"] == 0
        result = jobs.ends_well(job)
        assert result["outcome"] == "sent", result["reason"]
        assert hub.repository(REPO).branches["main"] == result["commit"]
        assert hub.writing.put_bytes <= SIZE + PART_BYTES * 4, (
            "more than was in flight at three kills came twice"
        )
