"""Parts in any order, as often as they like, whole or cut: what comes together is what was announced."""

import hashlib
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from itertools import count as numbered
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model_store.backends.bucket.client import BucketClient
from model_store.backends.bucket.upload_buffer import BucketUploadBuffer
from model_store.backends.local_upload_buffer import LocalUploadBuffer
from model_store.errors import ContentDiffers, PartRefused, StoreFull, UnknownUpload
from model_store.file_manifest import ManifestFile
from model_store.upload_buffer import UploadBuffer
from tests.contracts.store_rigs import BucketRig

PART = 4
KINDS = ("whole", "cut", "too long", "damaged", "wrong")


@dataclass(frozen=True)
class Content:
    sha256: str
    size: int
    is_known: bool = False


def content_of(data: bytes) -> Content:
    return Content(hashlib.sha256(data).hexdigest(), len(data))


class Taken:
    """A staging area that keeps what it is handed."""

    def __init__(self) -> None:
        self.data = b""

    def take_over(self, path: Path, sha256: str, size: int, *, counted: object) -> bool:
        self.data = path.read_bytes()
        return True

    def take_read(self, read: Callable[..., str], sha256: str, size: int, *, counted: object) -> bool:
        came = bytearray()
        found = read(came.extend)
        self.data = bytes(came)
        return found == sha256


Make = Callable[[bytes], tuple[UploadBuffer, Content]]


@pytest.fixture(params=["directory", "bucket"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """A buffer, begun, that waits for one content; in the bucket each by itself."""
    numbers = numbered()
    if request.param == "bucket":
        bucket = BucketClient(BucketRig(request.getfixturevalue("s3"), tmp_path).place)

    def made(data: bytes) -> tuple[UploadBuffer, Content]:
        buffer: UploadBuffer
        if request.param == "bucket":
            buffer = BucketUploadBuffer(bucket, uuid4().hex, part_bytes=PART)
        else:
            buffer = LocalUploadBuffer(tmp_path / f"spool-{next(numbers)}", part_bytes=PART)
        content = content_of(data)
        buffer.begin([ManifestFile("a", content.size, content.sha256)], [content])
        return buffer, content

    return made


def taken(buffer: UploadBuffer, content: Content) -> bytes:
    """Return the content that an import reads."""
    staging = Taken()
    assert buffer.hand_over(content, staging, counted=lambda _: None)  # type: ignore[arg-type]
    return staging.data


def buffer_of(directory: Path, data: bytes) -> tuple[LocalUploadBuffer, Content]:
    buffer, content = LocalUploadBuffer(directory / "spool", part_bytes=PART), content_of(data)
    buffer.begin([ManifestFile("a", content.size, content.sha256)], [content])
    return buffer, content


def send(
    buffer: UploadBuffer, content: Content, data: bytes, index: int, kind: str = "whole", *, count: int = 1
) -> None:
    """The part of that index, and the `count` - 1 next ones as far as there are any."""
    parts = range(index, min(index + count, buffer.part_count(len(data))))
    good = data[parts.start * PART : parts.stop * PART]
    body = {"cut": good[:-1], "too long": good + b"x", "wrong": bytes(255 - byte for byte in good)}
    digest = hashlib.sha256(b"another").digest() if kind == "damaged" else None
    buffer.write(content, parts=parts, body=BytesIO(body.get(kind, good)), digest=digest)


def play(make: Make, data: bytes, plays: st.DataObject) -> None:
    buffer, content = make(data)
    parts = range(buffer.part_count(len(data)))
    runs = st.tuples(st.sampled_from(parts), st.sampled_from(KINDS), st.integers(1, 5))
    for index, kind, count in plays.draw(st.lists(runs, max_size=30)):
        with suppress(PartRefused, ContentDiffers):
            send(buffer, content, data, index, kind, count=count)
    for _ in range(2):
        for index in plays.draw(st.permutations(list(parts))):
            # All parts together may be wrong ones; then they come once more.
            with suppress(ContentDiffers):
                send(buffer, content, data, index)
    assert not buffer.is_missing(content)
    assert buffer.missing([content]) == {}
    assert buffer.received(content) == [range(len(data))]
    assert taken(buffer, content) == data
    buffer.discard()
    assert not buffer.exists()


@settings(max_examples=80)
@given(data=st.binary(min_size=1, max_size=40), plays=st.data())
def test_any_order_any_repetition_and_any_cut_end_in_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, plays: st.DataObject
) -> None:
    play(lambda one: buffer_of(tmp_path_factory.mktemp("play"), one), data, plays)


@settings(max_examples=8)
@given(data=st.binary(min_size=1, max_size=40), plays=st.data())
def test_so_they_do_in_a_bucket(s3, tmp_path_factory, data: bytes, plays: st.DataObject) -> None:
    bucket = BucketClient(BucketRig(s3, tmp_path_factory.mktemp("node")).place)

    def made(one: bytes) -> tuple[UploadBuffer, Content]:
        buffer, content = BucketUploadBuffer(bucket, uuid4().hex, part_bytes=PART), content_of(one)
        buffer.begin([ManifestFile("a", content.size, content.sha256)], [content])
        return buffer, content

    play(made, data, plays)


def test_parts_from_many_threads_at_once_end_in_the_same_bytes(make: Make) -> None:
    data = bytes(range(48))
    buffer, content = make(data)

    def send_all() -> None:
        for index in range(buffer.part_count(len(data))):
            send(buffer, content, data, index)

    threads = [threading.Thread(target=send_all) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert taken(buffer, content) == data


def test_a_request_that_is_late_changes_nothing_of_what_is_whole(make: Make) -> None:
    data = b"12345678"
    buffer, content = make(data)
    begun, late = threading.Event(), threading.Event()

    class Slow(BytesIO):
        """Its request has begun while the content was open, and ends when that is whole."""

        def read(self, size: int | None = -1) -> bytes:
            begun.set()
            late.wait(60)
            return super().read(size)

    send(buffer, content, data, 0)

    def put(body: BytesIO) -> None:
        with suppress(ContentDiffers):
            buffer.write(content, parts=range(1, 2), body=body)

    slow = threading.Thread(target=put, args=(Slow(b"9999"),))
    slow.start()
    begun.wait(60)
    other = threading.Thread(target=put, args=(BytesIO(b"5678"),))
    other.start()
    if isinstance(buffer, BucketUploadBuffer):
        other.join()
    late.set()
    slow.join()
    other.join()
    # Whoever closed it closed it alone: it is right, or it begins anew.
    assert buffer.is_missing(content) or taken(buffer, content) == data
    for index in (0, 1):
        send(buffer, content, data, index)
    assert taken(buffer, content) == data
    assert buffer.write(content, parts=range(1), body=BytesIO(b"9999")) is False


def test_a_part_that_comes_when_the_upload_has_ended_leaves_nothing(make: Make) -> None:
    data = b"12345678"
    buffer, content = make(data)
    send(buffer, content, data, 0)

    class Late(BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            buffer.discard()
            return super().read(size)

    with pytest.raises(UnknownUpload):
        buffer.write(content, parts=range(1, 2), body=Late(b"5678"))
    assert not buffer.exists()
    with pytest.raises(FileNotFoundError):
        buffer.manifest()


def test_what_was_known_and_is_gone_comes_after_all(make: Make) -> None:
    data = b"12345678"
    other, _ = make(b"other")
    known = Content(hashlib.sha256(data).hexdigest(), 8, is_known=True)
    assert other.write(known, parts=range(2), body=BytesIO(data)) is False
    assert (other.is_awaited(known), other.missing([known])) == (False, {})
    other.open_anew(known)
    assert other.missing([known]) == {known.sha256: []}
    send(other, known, data, 1)
    assert other.missing([known]) == {known.sha256: [range(4, 8)]}
    send(other, known, data, 0)
    assert (other.is_awaited(known), other.missing([known])) == (True, {})
    assert taken(other, known) == data
    other.restart(known)
    assert other.missing([known]) == {known.sha256: []}


def test_what_somebody_has_a_link_to_does_not_begin_anew(tmp_path: Path) -> None:
    data = b"12345678"
    buffer, content = buffer_of(tmp_path, data)
    send(buffer, content, data, 0, count=2)
    link = tmp_path / "taken"
    link.hardlink_to(buffer.path(content.sha256))
    buffer.restart(content)
    assert buffer.write(content, parts=range(1), body=BytesIO(b"9999")) is False
    assert link.read_bytes() == data


def test_the_room_is_taken_at_once_or_nothing_is_left(tmp_path: Path) -> None:
    buffer = LocalUploadBuffer(tmp_path / "spool", part_bytes=1024**3)
    files, content = [ManifestFile("a", 2**60, "a" * 64)], Content("a" * 64, 10_000_000)
    with pytest.raises(StoreFull):
        buffer.begin(files, [Content("a" * 64, 2**60)])
    assert not buffer.exists()
    buffer.begin(files, [content])
    assert buffer._path("a" * 64, ".part").stat().st_blocks * 512 >= 10_000_000
    buffer.discard()
    with pytest.raises(UnknownUpload):
        buffer.write(content, parts=range(1), body=BytesIO(b""))


def test_a_process_that_dies_after_its_last_mark_has_its_content_closed_by_the_next_one(
    tmp_path: Path,
) -> None:
    data = b"123456"
    buffer, content = buffer_of(tmp_path, data)
    send(buffer, content, data, 0)
    with buffer._locked(buffer._path(content.sha256, ".part"), 1, flags=1) as descriptor:
        assert descriptor is not None
        buffer._pour(descriptor, range(4, 6), [range(4, 6)], BytesIO(b"56"), None)
        buffer._mark(content.sha256, [1])
    assert buffer.is_missing(content)
    send(buffer, content, data, 0)
    assert not buffer.is_missing(content)


def test_a_damaged_run_leaves_what_has_come_as_it_was(make: Make) -> None:
    data = b"0123456789abcdef"
    buffer, content = make(data)
    send(buffer, content, data, 1)
    with pytest.raises(PartRefused):
        damaged = BytesIO(b"x" * 16)
        buffer.write(content, parts=range(4), body=damaged, digest=hashlib.sha256(data).digest())
    assert buffer.received(content) == [range(4, 8)]
    send(buffer, content, data, 0, count=4)
    assert taken(buffer, content) == data
