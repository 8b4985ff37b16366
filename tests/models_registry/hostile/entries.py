"""Entries of a directory that lead out of it, never end, or are named to deceive."""

import os
import socket
import stat
from pathlib import Path

import pytest

from tests.models_registry import builders as b


def put_symlink(directory: Path) -> None:
    (directory / "bad").symlink_to("/etc/passwd")


def put_inner_symlink(directory: Path) -> None:
    (directory / "bad").symlink_to("config.json")


def put_directory_symlink(directory: Path) -> None:
    (directory / "bad").symlink_to("/etc", target_is_directory=True)


def put_fifo(directory: Path) -> None:
    os.mkfifo(directory / "bad")


def put_socket(directory: Path) -> None:
    here = Path.cwd()
    os.chdir(directory)
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("bad")
    finally:
        os.chdir(here)


def put_hard_link(directory: Path) -> None:
    os.link(directory.parent / "secret", directory / "bad")


def put_device(directory: Path) -> None:
    try:
        os.mknod(directory / "bad", stat.S_IFCHR | 0o600, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root makes devices")


def put_block_device(directory: Path) -> None:
    try:
        os.mknod(directory / "bad", stat.S_IFBLK | 0o600, os.makedev(7, 0))
    except PermissionError:
        pytest.skip("only root makes devices")


def put_undecodable(directory: Path) -> None:
    Path(os.fsdecode(bytes(directory) + b"/bad\xff")).write_bytes(b"x")


def put_control(directory: Path) -> None:
    (directory / "bad\n").write_bytes(b"x")


def put_reordered(directory: Path) -> None:
    (directory / "bad\u202egnp.py").write_bytes(b"x")


def put_twin(directory: Path) -> None:
    (directory / "Config.JSON").write_bytes(b"{}")


def put_deep(directory: Path) -> None:
    deep = directory.joinpath(*["d"] * 40)
    deep.mkdir(parents=True)
    (deep / "f").write_bytes(b"")


def put_compatible(directory: Path) -> None:
    (directory / "Grüße.txt".replace("ü", "u\u0308")).write_bytes(b"x")


def put_twin_directory(directory: Path) -> None:
    b.write(directory, {"parts/a.txt": b"x", "Parts/b.txt": b"x"})


def put_loop(directory: Path) -> None:
    (directory / "bad").symlink_to("bad")


def put_backslash(directory: Path) -> None:
    (directory / "..\\..\\bad").write_bytes(b"x")


ENTRIES = {
    put_symlink: "symbolic link",
    put_inner_symlink: "symbolic link",
    put_directory_symlink: "symbolic link",
    put_fifo: "named pipe",
    put_socket: "socket",
    put_hard_link: "hard-linked from outside",
    put_device: "character device",
    put_block_device: "block device",
    put_undecodable: "not valid UTF-8",
    put_control: "control",
    put_reordered: "text-reordering",
    put_twin: "upper and lower case",
    put_deep: "directories deep",
    put_compatible: "Unicode's composed form",
    put_twin_directory: "upper and lower case",
    put_loop: "symbolic link",
    put_backslash: "backslash",
}
"""By what puts it into a directory: part of the reason."""
