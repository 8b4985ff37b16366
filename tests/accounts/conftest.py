from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def _import_root(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("import")


@pytest.fixture
def import_root(_import_root, settings) -> Path:
    """A directory that the server may import from."""
    settings.SLIPWAY_IMPORT_ROOTS = (_import_root,)
    return _import_root
