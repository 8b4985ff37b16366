"""A version of a store in a directory on its way to its first worker: read before it is linked."""

from contextlib import suppress

import pytest

from model_store.backends import local
from model_store.processes import node_prefetch
from models_registry import files
from models_registry.errors import FilesUnderWay, NotFetched
from tests.model_store.test_checking import damage
from tests.patience import eventually

pytestmark = [pytest.mark.django_db, pytest.mark.slow]


@pytest.fixture(autouse=True)
def large(monkeypatch) -> None:
    """Every version takes a process."""
    monkeypatch.setattr(local, "AT_ONCE_BYTES", 1)


def is_put_in_place(version) -> bool:
    with suppress(FilesUnderWay):
        return files.materialise(version).is_dir()
    return False


def test_a_large_version_is_read_by_a_process_of_its_own(library, version) -> None:
    with pytest.raises(FilesUnderWay, match="are read and compared with their hashes first"):
        files.materialise(version)
    eventually(lambda: is_put_in_place(version), every=0.2)


def test_a_large_version_that_was_changed_is_not_served_and_it_is_said_why(
    library, version, monkeypatch
) -> None:
    monkeypatch.setattr(node_prefetch, "RETRY_AFTER_SECONDS", 0.5)
    damage(library, version)

    with pytest.raises(NotFetched, match=r"The stored content of model\.safetensors is damaged"):
        eventually(lambda: is_put_in_place(version), every=0.2)
    assert library.store.materialised() == {}
