"""Versions of a bucket that several hosts have laid out: each removes its own when the version is deleted."""

from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from common.models import Pulse
from common.reconcile import Kernel
from model_store import blob_store
from model_store.models import ModelDirectoryHost
from model_store.processes import node_prefetch
from model_store.reconcilers.host_caches import ModelDirectoryReconciler
from models_registry import files
from models_registry.errors import FilesUnderWay
from models_registry.models import Version
from models_registry.services import versions
from tests.contracts.store_rigs import BucketRig
from tests.crash.harness import Checkpoints, Clock, crashes, die, dies, worker

pytestmark = pytest.mark.django_db


class Hosts:
    """Two homes, and the processes of each."""

    def __init__(self, settings: Any, homes: Path) -> None:
        self._settings, self._homes = settings, homes
        self.clock = Clock(timezone.now())
        self.be("here")

    def be(self, host: str) -> None:
        self._settings.SLIPWAY_HOST = host
        self._settings.SLIPWAY_STORE_DIR = self._homes / host / "models"

    def lay_out(self, host: str, version: Version) -> Path:
        self.be(host)
        try:
            return files.materialise(version)
        except FilesUnderWay:
            return files.materialise(version)

    def kernel(self, host: str, checkpoints: Checkpoints | None = None) -> Kernel:
        self.be(host)
        self.clock.at = max(self.clock.at, timezone.now())
        made = worker([ModelDirectoryReconciler()], self.clock, checkpoints)
        made.host = lambda: host
        return made


@pytest.fixture
def hosts(s3, library, settings, tmp_path, monkeypatch) -> Hosts:
    rig = BucketRig(s3, tmp_path / "node")
    settings.SLIPWAY_STORE = f"s3://{rig.bucket}/slipway/"
    settings.SLIPWAY_STORE_ENDPOINT = s3.url
    settings.SLIPWAY_STORE_PATH_STYLE = True

    def bring_here(runner: object, store: Any, manifest: Any) -> str:
        store.materialise(manifest)
        return ""

    monkeypatch.setattr(node_prefetch, "start", bring_here)
    for host in ("here", "brno"):
        Pulse.objects.create(name=f"sweeper@{host}:1", host=host, pid=1, taken=0, at=timezone.now())
    return Hosts(settings, tmp_path / "hosts")


def deleted(hosts: Hosts, library, actor, model) -> tuple[Path, Path, Path]:
    """Return what lay on two hosts of a version deleted at the first, and what the second still needs."""
    doomed, kept = library.ready(actor, model), library.ready(actor, model, "other", fill=b"\x02")
    there = [hosts.lay_out(host, doomed) for host in ("here", "brno")]
    still = hosts.lay_out("brno", kept)
    hosts.be("here")
    versions.delete_version(actor=actor, version=doomed)
    library.settle()
    return there[0], there[1], still


def test_each_host_removes_what_has_no_version_any_more(hosts, library, actor, model) -> None:
    here, there, still = deleted(hosts, library, actor, model)
    assert not here.exists()
    assert there.is_dir()
    hosts.kernel("here").sweep()
    assert there.is_dir()
    assert hosts.kernel("brno").sweep() == 1
    assert (there.exists(), still.is_dir()) == (False, True)
    assert list(blob_store.store().materialised()) == [still.name]


def test_a_host_that_was_away_removes_it_when_it_is_back(hosts, library, actor, model) -> None:
    _, there, still = deleted(hosts, library, actor, model)
    Pulse.objects.filter(host="brno").delete()
    hosts.kernel("here").sweep()
    assert there.is_dir()
    Pulse.objects.create(name="sweeper@brno:2", host="brno", pid=2, taken=0, at=timezone.now())
    hosts.clock.pass_(ModelDirectoryReconciler.every)
    hosts.kernel("here").sweep()
    hosts.kernel("brno").sweep()
    assert (there.exists(), still.is_dir()) == (False, True)


def test_whoever_dies_while_removing_is_followed(hosts, library, actor, model) -> None:
    _, there, still = deleted(hosts, library, actor, model)
    for point in crashes():
        ModelDirectoryHost.objects.update(next_at=hosts.clock())
        if not dies(hosts.kernel("brno", Checkpoints(at=point, then=die)), hosts.clock):
            break
    assert point > 3
    assert (there.exists(), still.is_dir()) == (False, True)
