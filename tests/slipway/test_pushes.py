"""`slipway models push` of a directory that the server cannot read."""

import os
import threading
from pathlib import Path

import httpx2
import pytest
from django.db import connections
from django.utils import timezone

from accounts.states import Role
from models_registry.models import Model, Upload, Version, VersionTag
from slipway.cli import main
from slipway.cli.context import CliEnvironment
from slipway.hashing import HashMemory, hashed, listed
from slipway.runs import PartRuns
from tests.cast import person, team, token_of
from tests.models_registry import builders as b
from tests.models_registry.conftest import Library, library
from tests.slipway.conftest import Terminal

__all__ = ["library"]
PART = 4096


@pytest.fixture
def pushing(terminal: Terminal, library: Library, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setattr("model_store.upload_buffer.PART_BYTES", PART)
    monkeypatch.setattr("models_registry.api.uploads.REQUEST_BYTES", PART)
    terminal.token = token_of(person("ada", vision=Role.DEVELOPER))
    Model.objects.create(team=team("vision"), name="tiny")
    # What nobody touches expires: the workers' clock must not run ahead.
    library.clock.at = timezone.now()
    terminal.while_waiting = library.settle
    return terminal


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with 13 parts to send, and a Git history that is not part of the version."""
    files = b.model_files() | {"big.safetensors": b.weights(10_000, b"\x02"), ".git/config": b"[core]"}
    return b.write(tmp_path / "laptop", files)


def push(pushing: Terminal, directory: Path, *options: object):
    return pushing("models", "push", directory, "-m", "tiny", "--jobs", 1, *options)


def sent_parts(pushing: Terminal) -> list[httpx2.Request]:
    return [request for request in pushing.wire.sent if request.method == "PUT"]


def test_a_directory_of_this_machine_becomes_a_version_and_the_same_again_sends_nothing(
    pushing: Terminal, directory: Path
) -> None:
    said = push(pushing, directory, "--message", "first", "--alias", "production", "--tag", "nightly")
    assert said.status == 0, said
    assert said.out.startswith("tiny:v1 ready, ")
    assert "Uploading: " in said.err
    version = Version.objects.get()
    assert (version.message, version.file_count, version.source["kind"]) == ("first", 6, "upload")
    assert version.source["origin"].endswith(str(directory))
    assert VersionTag.objects.get(version=version).name == "nightly"
    count = len(sent_parts(pushing))
    assert count > 10
    (directory / "README.md").write_text("# Another card\n")
    assert push(pushing, directory).status == 0
    parts = [request.url.path for request in sent_parts(pushing)[count:] if "/blobs/" in request.url.path]
    assert len(parts) == 1
    assert Version.objects.count() == 2
    same = push(pushing, directory)
    assert same.out.strip().endswith(", same content as v2")
    assert [row["model"] for row in pushing("--output", "json", "models", "versions").document] == [
        "tiny"
    ] * 3


def test_a_push_that_broke_off_goes_on_where_it_was(pushing: Terminal, directory: Path) -> None:
    def breaks_off_once(request: httpx2.Request) -> None:
        if len(sent_parts(pushing)) == 7:
            pushing.wire.stumbles = lambda request: None
            raise KeyboardInterrupt

    pushing.wire.stumbles = breaks_off_once
    assert push(pushing, directory).status == 130
    first = len(sent_parts(pushing))
    assert push(pushing, directory).status == 0
    assert Upload.objects.count() == 1
    addressed = [(request.url.path, request.headers["Content-Range"]) for request in sent_parts(pushing)]
    assert len(addressed) == len(set(addressed)) > first


def test_what_fails_for_the_moment_is_tried_again_as_the_server_asks(
    pushing: Terminal, directory: Path
) -> None:
    faults = [429, 503, None, 500]

    def stumbles(request: httpx2.Request) -> httpx2.Response | None:
        if request.method != "PUT" or not faults:
            return None
        status = faults.pop()
        if status is None:
            raise httpx2.ReadError("connection reset by peer", request=request)
        return httpx2.Response(status, headers={"Retry-After": "7"})

    pushing.wire.stumbles = stumbles
    assert push(pushing, directory).status == 0
    assert pushing.waited[:4] == [7.0, 1.0, 7.0, 7.0]


def test_a_server_that_stays_away_ends_the_push_with_8(pushing: Terminal, directory: Path) -> None:
    pushing.while_waiting = lambda: None
    pushing.wire.stumbles = lambda request: httpx2.Response(503) if request.method == "PUT" else None
    assert push(pushing, directory).status == 8


def test_a_file_that_changed_under_its_remembered_hash_is_read_by_the_next_push(
    pushing: Terminal, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slipway.hashing.REMEMBERED_FROM_BYTES", 1)
    big = directory / "big.safetensors"
    before = big.stat()
    assert push(pushing, directory, "--no-wait").status == 0
    Upload.objects.all().update(state="cancelled")
    big.write_bytes(b.weights(10_000, b"\x03"))
    os.utime(big, ns=(before.st_atime_ns, before.st_mtime_ns))
    said = push(pushing, directory)
    assert said.status == 1
    assert "big.safetensors: What came as" in said.err
    assert push(pushing, directory).status == 0


def test_a_remembered_hash_that_only_the_import_finds_wrong_is_not_believed_again(
    pushing: Terminal, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slipway.hashing.REMEMBERED_FROM_BYTES", 1)
    monkeypatch.setattr("model_store.backends.local_upload_buffer.CHECKED_AT_ONCE_BYTES", -1)
    big = directory / "big.safetensors"
    before = big.stat()
    HashMemory.of_user().remember(listed(directory, ignore=())[2], "0" * 64)
    assert [file.path for file in listed(directory, ignore=())][2] == big.name
    said = push(pushing, directory)
    assert (said.status, "is not what was announced" in said.err) == (1, True)
    assert big.stat().st_mtime_ns == before.st_mtime_ns
    assert push(pushing, directory).status == 0
    assert sorted(Upload.objects.values_list("state", flat=True)) == ["cancelled", "done"]


def test_files_that_must_not_enter_end_the_push_with_1_before_a_byte(
    pushing: Terminal, directory: Path, tmp_path: Path
) -> None:
    (directory / "model.pkl").write_bytes(b"x")
    said = push(pushing, directory)
    assert (said.status, sent_parts(pushing)) == (1, [])
    assert "model.pkl" in said.err
    (directory / "model.pkl").unlink()
    (directory / "link.json").symlink_to(tmp_path / "secret")
    said = push(pushing, directory)
    assert (said.status, "symbolic link" in said.err) == (1, True)
    assert push(pushing, directory, "--ignore", "link.*", "--no-wait").status == 0


def test_a_model_that_is_not_there_is_said_before_the_files_are_read(
    pushing: Terminal, directory: Path
) -> None:
    said = pushing("models", "push", directory, "-m", "nomodel")
    assert (said.status, "nomodel" in said.err, "Hashing" in said.err) == (2, True, False)


def test_a_directory_that_cannot_be_pushed_makes_no_model(pushing: Terminal, directory: Path) -> None:
    (directory / "link.json").symlink_to("secret")
    assert pushing("models", "push", directory, "-m", "new", "--create").status == 1
    assert not Model.objects.filter(name="new").exists()


def test_hashes_are_remembered_and_found_wrong_when_a_file_is_another_one(tmp_path: Path) -> None:
    b.write(tmp_path / "d", {"a.bin": b"a" * 2_000_000, "b/small": b"s"})
    memory = HashMemory(tmp_path / "cache")
    counted: list[int] = []
    first = hashed(listed(tmp_path / "d", ignore=()), memory, threads=2, counted=counted.append)
    (tmp_path / "d/a.bin").chmod(0)
    again = listed(tmp_path / "d", ignore=())
    assert [memory.recalled(file) for file in again] == [first[0].sha256, ""]
    (tmp_path / "d/a.bin").unlink()
    b.write(tmp_path / "d", {"a.bin": b"b" * 2_000_000})
    assert memory.recalled(listed(tmp_path / "d", ignore=())[0]) == ""
    nowhere = HashMemory(Path("/proc/nowhere"))
    nowhere.remember(again[0], "x")
    assert nowhere.recalled(again[0]) == ""


@pytest.mark.django_db(transaction=True)
def test_several_connections_push_to_a_real_server(
    library: Library, directory: Path, live_server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The server's threads must not keep connections to a database that is about to go.
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", 0)
    monkeypatch.setattr("model_store.upload_buffer.PART_BYTES", PART)
    monkeypatch.setattr("models_registry.api.uploads.REQUEST_BYTES", PART)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SLIPWAY_TOKEN", token_of(person("ada", vision=Role.DEVELOPER)))
    lock = threading.Lock()

    def settle(_seconds: float) -> None:
        with lock:
            library.settle()

    arguments = ["--url", live_server.url, "models", "push", str(directory)]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "-m", "tiny", "--create"], outside=CliEnvironment(sleep=settle))
    assert ended.value.code == 0
    assert Version.objects.get().state == "ready"


def missing(*contents: tuple[str, int, list[list[int]]], request_bytes: int = 16 * PART) -> dict:
    """An upload as the server tells of it."""
    listed = [{"sha256": sha, "size": size, "received": received} for sha, size, received in contents]
    return {"part_bytes": PART, "request_bytes": request_bytes, "missing": listed}


def test_a_request_holds_what_the_line_carries_in_a_moment() -> None:
    runs = PartRuns(missing(("a", 400 * PART, [])))
    sizes = []
    for number, run in enumerate(runs):
        sizes.append((run.stop - run.start) // PART)
        seconds_per_part = 0.001 if number < 10 else 1.0
        runs.took(run.stop - run.start, sizes[-1] * seconds_per_part)
    assert sizes[:7] == [1, 2, 4, 8, 16, 16, 16]
    assert set(sizes[11:]) == {1}
    assert sum(sizes) == 400


def test_what_has_come_is_not_sent_again_and_a_server_without_runs_gets_single_parts() -> None:
    upload = missing(("a", 5 * PART + 7, [[PART, 2 * PART - 1]]), ("b", 10 * PART, [[0, 9 * PART - 1]]))
    runs = PartRuns(upload)
    runs.took(99 * PART, 0.0)
    runs.took(99 * PART, 0.0)
    found = [(run.start, run.stop) for run in runs]
    assert found == [
        (9 * PART, 10 * PART),
        (0, PART),
        (2 * PART, 5 * PART + 7),
    ]
    del upload["request_bytes"]
    old = PartRuns(upload)
    old.took(99 * PART, 0.0)
    assert {run.stop - run.start for run in old} == {PART, 7}
