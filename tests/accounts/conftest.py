from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def _import_root(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("import")


@pytest.fixture
def import_root(_import_root, settings) -> Path:
    """A directory that the server may import from; what is uploaded goes elsewhere."""
    settings.SLIPWAY_IMPORT_ROOTS = (_import_root,)
    settings.SLIPWAY_STORE_DIR = _import_root.with_name(f"{_import_root.name}-store")
    settings.SLIPWAY_EXPORT_ENDPOINTS = ("https://hub.example.org",)
    return _import_root
