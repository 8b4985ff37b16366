from pathlib import Path

import pytest

from model_store.backends.base import BlobStore
from tests.contracts.store_rigs import BucketRig, LocalRig, Rig


@pytest.fixture(params=["directory", "bucket"])
def rig(request, tmp_path: Path) -> Rig:
    if request.param == "directory":
        return LocalRig(tmp_path)
    return BucketRig(request.getfixturevalue("s3"), tmp_path / "node")


@pytest.fixture
def store(rig: Rig) -> BlobStore:
    return rig.store
