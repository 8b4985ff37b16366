"""The disk of the home: what counts as full, and the reserve that is given up then."""

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from common import disk
from common.disk import MIB, DiskReserve, DiskState

Fill = Callable[[int], None]


@pytest.fixture
def fill(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fill:
    """A disk of 1,000 MiB of which so many are free, the reserve's own room aside."""
    (tmp_path / "run").mkdir()
    reserve = tmp_path / "run" / "disk-reserve"
    free_mib = 500

    def statvfs(_path: Path) -> SimpleNamespace:
        held = reserve.stat().st_blocks * 512 if reserve.exists() else 0
        free = max(0, free_mib * MIB - held)
        return SimpleNamespace(f_frsize=1, f_blocks=1_000 * MIB, f_bavail=free)

    def filled(free: int) -> None:
        nonlocal free_mib
        free_mib = free

    monkeypatch.setattr(disk.os, "statvfs", statvfs)
    return filled


def test_the_reserve_is_given_up_when_the_disk_is_full_and_taken_again(fill: Fill, tmp_path: Path) -> None:
    reserve = DiskReserve(tmp_path, wanted_mib=8, warn_percent=10)
    reserve.keep()
    assert reserve.path.stat().st_blocks * 512 == 8 * MIB

    fill(9)  # one beside the reserve
    assert reserve.keep().state is DiskState.FULL
    assert reserve.path.stat().st_size == 0
    assert os.statvfs(tmp_path).f_bavail == 9 * MIB
    assert reserve.keep().state is DiskState.FULL, "what the reserve gave up is no room"

    fill(60)
    assert reserve.keep().state is DiskState.LOW
    assert reserve.path.stat().st_blocks * 512 == 8 * MIB
    fill(500)
    assert reserve.keep().state is DiskState.OK


def test_the_reserve_is_small_on_a_small_disk(fill: Fill, tmp_path: Path) -> None:
    assert DiskReserve(tmp_path, wanted_mib=4_096, warn_percent=10).room().reserve == 50 * MIB


def test_without_anybody_who_keeps_a_reserve_the_free_bytes_count_as_they_are(
    fill: Fill, tmp_path: Path
) -> None:
    reserve = DiskReserve(tmp_path, wanted_mib=8, warn_percent=0)
    fill(3)
    assert reserve.room().state is DiskState.OK
    fill(1)
    assert reserve.room().state is DiskState.FULL
