from collections.abc import Iterator
from pathlib import Path

import pytest

from model_store.backends.base import BlobStore
from tests.contracts.store_rigs import BucketRig, LocalRig, Rig
from tests.contracts.traffic_rigs import EnvoyWorld, FakeWorld, GatewayApiWorld, World


@pytest.fixture(params=["directory", "bucket"])
def rig(request, tmp_path: Path) -> Rig:
    if request.param == "directory":
        return LocalRig(tmp_path)
    return BucketRig(request.getfixturevalue("s3"), tmp_path / "node")


@pytest.fixture
def store(rig: Rig) -> BlobStore:
    return rig.store


@pytest.fixture(params=["fake", "gateway_api", pytest.param("envoy", marks=pytest.mark.stack)])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    if request.param in ("fake", "gateway_api"):
        made: World = FakeWorld() if request.param == "fake" else GatewayApiWorld()
        if why := made.unlike.get(request.node.originalname):
            pytest.skip(why)
        yield made
        return
    real = EnvoyWorld(tmp_path)
    try:
        real.start()
        yield real
    finally:
        real.stack.stop()
