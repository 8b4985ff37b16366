"""The process that collects, killed: nothing that is needed goes, all else does, and it is counted once."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import eventually

pytestmark = [pytest.mark.stack, pytest.mark.timeout(180)]

PROJECT = Path(__file__).resolve().parents[2]
BLOBS, SIZE = 6_000, 10
PREPARE = """
import django, json, sys
django.setup()
from django.core.management import call_command
from django.utils import timezone
from accounts.models import Team
from common.actor import Actor
from models_registry.models import Model, Version, VersionFile
from model_store.services import begin_collection
call_command("migrate", interactive=False, verbosity=0)
model = Model.objects.create(team=Team.objects.create(name="vision"), name="tiny")
version = Version.objects.create(
    model=model, number=1, name="v1", state="ready", digest="0" * 64, ready_at=timezone.now(), file_count=1,
    is_held=False)
VersionFile.objects.bulk_create(
    [VersionFile(version=version, path=f"{n}.json", size=10, sha256=sha256, format="json")
     for n, sha256 in enumerate(json.load(sys.stdin))], batch_size=500)
begin_collection(actor=Actor.system("test"), grace_seconds=0)
"""
LOOK = """
import django, json
django.setup()
from model_store.models import Collection, UnreferencedBlob
row = Collection.objects.order_by("pk").values("state", "deleted_blobs", "deleted_bytes", "blobs").first()
print(json.dumps(row | {"marks": UnreferencedBlob.objects.count()}))
"""

FORGET_LEASE = """
import django
django.setup()
from common.reconcile import EPOCH
from model_store.models import Collection
Collection.objects.update(lease_until=EPOCH)
"""
FINISH = """
import django
django.setup()
from common.reconcile import kernel
from model_store.models import Collection
pk = Collection.objects.order_by("pk").values_list("pk", flat=True).first()
while kernel.advance("model_store.collection", pk):
    pass
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLIPWAY_", "DJANGO_"))}
    return kept | {"DJANGO_SETTINGS_MODULE": "controlplane.settings.embedded", "SLIPWAY_HOME": str(home)}


def python(home: Path, code: str, given: str = "") -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command,
        cwd=PROJECT,
        env=environment(home),
        input=given,
        text=True,
        check=True,
        stdout=subprocess.PIPE,
    ).stdout


def stored(home: Path) -> set[str]:
    return {path.name for path in (home / "models/blobs/sha256").glob("*/*")}


@pytest.fixture
def needed(home: Path) -> set[str]:
    """Every tenth blob of a store."""
    names = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(BLOBS)]
    for name in names:
        path = home / "models/blobs/sha256" / name[:2] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * SIZE)
    python(home, PREPARE, json.dumps(names[::10]))
    return set(names[::10])


@pytest.mark.slow
def test_a_collecting_process_is_killed_again_and_again(home, needed) -> None:
    for share in (0.8, 0.4):
        sweeper = subprocess.Popen(
            [sys.executable, "manage.py", "sweep", "--every", "0.1"],
            cwd=PROJECT,
            env=environment(home),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            eventually(lambda least=share: len(stored(home)) < BLOBS * least, seconds=60)
        finally:
            sweeper.send_signal(signal.SIGKILL)
            sweeper.wait()
        assert needed <= stored(home)
        python(home, FORGET_LEASE)
    seen = json.loads(python(home, FINISH + LOOK))
    assert stored(home) == needed
    assert (seen["state"], seen["marks"]) == ("done", 0)
    assert seen["deleted_blobs"] == BLOBS - len(needed)
    assert seen["deleted_bytes"] == SIZE * (BLOBS - len(needed))
