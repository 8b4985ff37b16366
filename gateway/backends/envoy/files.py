"""Files that are replaced whole or not at all, and locks that die with their holder."""

import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from gateway.errors import GatewayBusy, GatewayError

LOCK_WITHIN_SECONDS = 6.0
LEFTOVER = ".tmp"


def read_json(path: Path) -> Any | None:
    """The document, or None when there is no such file. Raises GatewayError when it is not JSON."""
    try:
        return orjson.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except orjson.JSONDecodeError as error:
        raise GatewayError(
            f"{path} is damaged ({error}): remove it, and the gateway is set up anew."
        ) from None
    except OSError as error:
        raise GatewayError(f"{path} cannot be read: {error.strerror or error}.") from None


def replace_json(path: Path, document: object) -> None:
    """Put the document in place of the file by one rename, after it has reached the disk.

    Raises GatewayError, with the old file in place, when that cannot be done.
    """
    content = orjson.dumps(document, option=orjson.OPT_INDENT_2)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}{LEFTOVER}")
    try:
        try:
            with fresh.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(path)
        finally:
            fresh.unlink(missing_ok=True)
        _sync_directory(path.parent)
    except OSError as error:
        raise GatewayError(f"{path} cannot be written: {error.strerror or error}.") from None


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def sweep_leftovers(root: Path, *, older_than_seconds: float) -> None:
    """Remove files that a writer was killed over."""
    before = time.time() - older_than_seconds
    for leftover in root.rglob(f".*{LEFTOVER}"):
        try:
            if leftover.stat().st_mtime < before:
                leftover.unlink()
        except FileNotFoundError:
            continue


@contextmanager
def held(path: Path, *, within_seconds: float = LOCK_WITHIN_SECONDS) -> Iterator[None]:
    """Hold the lock of this file against every other thread and process. Raises GatewayBusy."""
    deadline = time.monotonic() + within_seconds
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise GatewayBusy(
                        f"Another writer has held {path} for {within_seconds:g} s. Try again."
                    ) from None
                time.sleep(0.005)
        yield
    finally:
        os.close(file)
