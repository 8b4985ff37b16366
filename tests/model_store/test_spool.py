"""Parts in any order, as often as they like, whole or cut: what comes together is what was announced."""

import hashlib
import threading
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model_store.errors import ContentDiffers, PartRefused, StoreFull, UnknownUpload
from model_store.file_manifest import ManifestFile
from model_store.upload_buffer import UploadBuffer

PART = 4
KINDS = ("whole", "cut", "too long", "damaged", "wrong")


def buffer_of(directory: Path, content: bytes) -> tuple[UploadBuffer, str]:
    sha256 = hashlib.sha256(content).hexdigest()
    buffer = UploadBuffer(directory / "spool", part_bytes=PART)
    buffer.begin([ManifestFile("a", len(content), sha256)], {sha256: len(content)})
    return buffer, sha256


def send(
    buffer: UploadBuffer, sha256: str, content: bytes, index: int, kind: str = "whole", *, count: int = 1
) -> None:
    """The part of that index, and the `count` - 1 next ones as far as there are any."""
    parts = range(index, min(index + count, buffer.part_count(len(content))))
    good = content[parts.start * PART : parts.stop * PART]
    body = {"cut": good[:-1], "too long": good + b"x", "wrong": bytes(255 - byte for byte in good)}
    digest = hashlib.sha256(b"another").digest() if kind == "damaged" else None
    body_of_kind = BytesIO(body.get(kind, good))
    buffer.write(sha256, len(content), parts=parts, body=body_of_kind, digest=digest)


@settings(max_examples=80)
@given(content=st.binary(min_size=1, max_size=40), plays=st.data())
def test_any_order_any_repetition_and_any_cut_end_in_the_same_bytes(content: bytes, plays) -> None:
    with TemporaryDirectory() as directory:
        buffer, sha256 = buffer_of(Path(directory), content)
        parts = range(buffer.part_count(len(content)))
        runs = st.tuples(st.sampled_from(parts), st.sampled_from(KINDS), st.integers(1, 5))
        for index, kind, count in plays.draw(st.lists(runs, max_size=30)):
            with suppress(PartRefused, ContentDiffers):
                send(buffer, sha256, content, index, kind, count=count)
        for _ in range(2):
            for index in plays.draw(st.permutations(list(parts))):
                # All parts together may be wrong ones; then they come once more.
                with suppress(ContentDiffers):
                    send(buffer, sha256, content, index)
        assert not buffer.is_missing(sha256)
        assert buffer.path(sha256).read_bytes() == content
        assert buffer.received(sha256, len(content)) == [range(len(content))]


def test_parts_from_many_threads_at_once_end_in_the_same_bytes(tmp_path: Path) -> None:
    content = bytes(range(200))
    buffer, sha256 = buffer_of(tmp_path, content)

    def send_all() -> None:
        for index in range(buffer.part_count(len(content))):
            send(buffer, sha256, content, index)

    threads = [threading.Thread(target=send_all) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert buffer.path(sha256).read_bytes() == content


def test_what_is_whole_is_changed_by_nobody(tmp_path: Path) -> None:
    content = b"12345678"
    buffer, sha256 = buffer_of(tmp_path, content)
    late = threading.Event()

    class Slow(BytesIO):
        """Its request has begun while the content was open, and reads its body when that is whole."""

        def read(self, size: int | None = -1) -> bytes:
            late.wait(60)
            return super().read(size)

    send(buffer, sha256, content, 0)

    def put(body: BytesIO) -> None:
        with suppress(ContentDiffers):
            buffer.write(sha256, 8, parts=range(1, 2), body=body)

    slow = threading.Thread(target=put, args=(Slow(b"9999"),))
    slow.start()
    other = threading.Thread(target=put, args=(BytesIO(b"5678"),))
    other.start()
    late.set()
    slow.join()
    other.join()
    # Whoever closed it closed it alone: it is right, or it begins anew.
    assert buffer.is_missing(sha256) or buffer.path(sha256).read_bytes() == content
    for index in (0, 1):
        send(buffer, sha256, content, index)
    link = tmp_path / "taken"
    link.hardlink_to(buffer.path(sha256))
    buffer.restart(sha256)
    assert buffer.write(sha256, 8, parts=range(1), body=BytesIO(b"9999")) is False
    assert link.read_bytes() == content


def test_the_room_is_taken_at_once_or_nothing_is_left(tmp_path: Path) -> None:
    buffer = UploadBuffer(tmp_path / "spool", part_bytes=1024**3)
    files = [ManifestFile("a", 2**60, "a" * 64)]
    with pytest.raises(StoreFull):
        buffer.begin(files, {"a" * 64: 2**60})
    assert not buffer.directory.exists()
    buffer.begin(files, {"a" * 64: 10_000_000})
    assert buffer._path("a" * 64, ".part").stat().st_blocks * 512 >= 10_000_000
    buffer.discard()
    with pytest.raises(UnknownUpload):
        buffer.write("a" * 64, 9, parts=range(1), body=BytesIO(b""))


def test_a_process_that_dies_after_its_last_mark_has_its_content_closed_by_the_next_one(
    tmp_path: Path,
) -> None:
    content = b"123456"
    buffer, sha256 = buffer_of(tmp_path, content)
    send(buffer, sha256, content, 0)
    with buffer._locked(buffer._path(sha256, ".part"), 1, flags=1) as descriptor:
        assert descriptor is not None
        buffer._pour(descriptor, range(4, 6), [range(4, 6)], BytesIO(b"56"), None)
        buffer._mark(sha256, [1])
    assert buffer.is_missing(sha256)
    send(buffer, sha256, content, 0)
    assert not buffer.is_missing(sha256)


def test_a_damaged_run_leaves_what_has_come_as_it_was(tmp_path: Path) -> None:
    content = b"0123456789abcdef"
    buffer, sha256 = buffer_of(tmp_path, content)
    send(buffer, sha256, content, 1)
    with pytest.raises(PartRefused):
        damaged = BytesIO(b"x" * 16)
        buffer.write(sha256, 16, parts=range(4), body=damaged, digest=hashlib.sha256(content).digest())
    assert buffer.received(sha256, 16) == [range(4, 8)]
    send(buffer, sha256, content, 0, count=4)
    assert buffer.path(sha256).read_bytes() == content
