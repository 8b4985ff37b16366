"""Files are replaced whole or not at all; locks fall with their holder."""

import multiprocessing
import stat
import time
from pathlib import Path

import pytest

from common import files


def test_a_reader_sees_the_old_content_or_the_new(tmp_path: Path) -> None:
    path = tmp_path / "file"
    files.replace(path, b"old")
    with path.open("rb") as reader:
        files.replace(path, b"new")
        assert reader.read() == b"old"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_no_litter(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.mkdir()
    with pytest.raises(OSError, match="irectory"):
        files.replace(path, b"new")
    assert list(tmp_path.iterdir()) == [path]


def test_a_secret_is_its_owners_alone_even_where_the_old_file_was_not(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")
    path.chmod(0o644)
    files.replace(path, b"new", is_secret=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_a_killed_writer_left_behind_is_swept(tmp_path: Path) -> None:
    leftover = tmp_path / "rds" / ".routes.json.12.ab.tmp"
    leftover.parent.mkdir()
    leftover.touch()
    files.sweep_leftovers(tmp_path, older_than_seconds=60)
    assert leftover.exists()
    files.sweep_leftovers(tmp_path, older_than_seconds=0)
    assert not leftover.exists()


def test_a_lock_falls_with_the_process_that_held_it(tmp_path: Path) -> None:
    path = tmp_path / "run" / "lock"
    spawn = multiprocessing.get_context("spawn")
    holds = spawn.Event()
    holder = spawn.Process(target=hold, args=(path, holds), daemon=True)
    holder.start()
    assert holds.wait(30)
    with pytest.raises(files.FileBusy, match="lock"), files.held(path, within_seconds=0.1):
        pass
    holder.kill()
    with files.held(path, within_seconds=10):
        pass


def hold(path: Path, holds) -> None:
    with files.held(path, within_seconds=1):
        holds.set()
        time.sleep(60)
