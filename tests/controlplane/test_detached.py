"""The log of a process that outlives its supervisord is begun anew under its pen."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from controlplane.embedded import detached
from controlplane.embedded.detached import Detached, trim_logs


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "worker.log"


def supervisord(log: Path) -> SimpleNamespace:
    config = SimpleNamespace(stdout_logfile=str(log), stdout_logfile_maxbytes=10, stdout_logfile_backups=2)
    group = SimpleNamespace(processes={"worker": Detached(config)})
    return SimpleNamespace(process_groups={"worker": group})


def test_a_large_log_is_put_away_and_its_writer_goes_on(log: Path) -> None:
    with log.open("ab", buffering=0) as writer:
        for text in (b"the very first", b"the second one", b"the third of them", b"small"):
            writer.write(text)
            trim_logs(supervisord(log))
        writer.write(b" and more")

    assert log.read_bytes() == b"small and more"
    assert {path.name: path.read_bytes() for path in log.parent.glob("worker.log.*")} == {
        "worker.log.1": b"the third of them",
        "worker.log.2": b"the second one",
    }


def test_without_room_for_the_copy_the_log_stays_and_nothing_is_left_over(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.write_bytes(b"more than ten bytes")

    def no_room(_: Path, copy: Path) -> None:
        copy.write_bytes(b"half")
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(detached.shutil, "copyfile", no_room)

    trim_logs(supervisord(log))

    assert [path.name for path in log.parent.iterdir()] == ["worker.log"]
    assert log.read_bytes() == b"more than ten bytes"
