from pathlib import Path

import pytest

from controlplane.environment import PROJECT
from tests.deploy.kustomize import Document, render

PLACES = ("overlays/small", "overlays/production", "agents", "agents/relay")


@pytest.fixture(params=PLACES)
def directory(request: pytest.FixtureRequest) -> Path:
    return PROJECT / "deploy" / str(request.param)


@pytest.fixture
def documents(directory: Path) -> list[Document]:
    return render(directory)


@pytest.fixture(params=["overlays/small", "overlays/production"])
def control_plane(request: pytest.FixtureRequest) -> list[Document]:
    return render(PROJECT / "deploy" / str(request.param))
