"""Evictions of a machine's cache, whatever came before."""

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model_store.backends.node_cache import NodeCache
from model_store.file_manifest import FileManifest, ManifestFile, manifest_of

pytestmark = [pytest.mark.any_database]
LIMIT = 5_000
CONTENTS = {
    hashlib.sha256(data).hexdigest(): data for data in (bytes([n]) * (400 * n + 300) for n in range(6))
}
VERSIONS = [
    manifest_of([ManifestFile(f"{sha}.bin", len(CONTENTS[sha]), sha) for sha in some])
    for first in range(6)
    for some in [[list(CONTENTS)[first], list(CONTENTS)[(first * 2 + 1) % 6]]]
    if some[0] != some[1]
]
HELD, RECENT, FREE = "held", "recent", "free"


def source(sha256: str, size: int, start: int) -> Iterator[bytes]:
    assert len(CONTENTS[sha256]) == size
    yield CONTENTS[sha256][start:]


def bytes_of(manifests: list[FileManifest]) -> int:
    return sum({file.sha256: file.size for one in manifests for file in one.files}.values())


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from(VERSIONS), st.sampled_from([HELD, RECENT, FREE, FREE])),
        min_size=1,
        max_size=12,
    )
)
def test_what_is_wanted_held_or_recent_stays_and_no_more_than_must_beyond_the_limit(fetches) -> None:
    with tempfile.TemporaryDirectory() as name:
        cache = NodeCache(Path(name), source, limit_bytes=LIMIT, spare=timedelta(hours=1))
        kept: dict[str, tuple[FileManifest, str]] = {}
        locks: dict[str, int] = {}
        try:
            for number, (manifest, how) in enumerate(fetches):
                # Room is made for what comes, not for what is there.
                comes = cache.directories.whole(manifest) is None
                directory = cache.materialise(manifest)
                for other, state in kept.values():
                    assert state == FREE or cache.directories.whole(other) is not None
                for file in manifest.files:
                    assert (directory / file.path).read_bytes() == CONTENTS[file.sha256]
                kept[manifest.digest] = (manifest, how)
                must = [one for one, state in kept.values() if state != FREE or one is manifest]
                assert not comes or cache.used_bytes() <= max(LIMIT, bytes_of(must))
                if how != RECENT:
                    os.utime(directory, (number + 1, number + 1))
                if (old := locks.pop(manifest.digest, None)) is not None:
                    os.close(old)
                if how == HELD:
                    locks[manifest.digest] = os.open(directory, os.O_RDONLY)
                    fcntl.flock(locks[manifest.digest], fcntl.LOCK_SH)
        finally:
            for descriptor in locks.values():
                with suppress(OSError):
                    os.close(descriptor)
