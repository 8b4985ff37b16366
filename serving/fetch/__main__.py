"""The command line: see this package's docstring."""

import argparse
import errno
import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

from model_store.backends.directories import sync_directory
from model_store.backends.node_cache import NodeCache
from model_store.errors import BlobMissing, StoreFull, StoreUnavailable
from model_store.errors import FileRefused as BadManifest
from model_store.fetch_progress import FetchProgress
from model_store.file_manifest import FileManifest, ManifestFile, manifest_of
from serving.fetch.control_plane import ControlPlane
from serving.fetch.errors import FetchError, NoRoom, Refused, WrongContent

TOKEN = "SLIPWAY_STORE_TOKEN"  # noqa: S105 - the name of a variable
TELL_EVERY_SECONDS = 5.0
USAGE = 2
STOPPED = 143
GIB = 1024**3


def main(arguments: Sequence[str]) -> int:
    given = command_line().parse_args(arguments)
    token = os.environ.get(TOKEN, "")
    if not token:
        return _ended(f"{TOKEN} is not set: give the pod the cluster's token for model files.", USAGE)
    # As PID 1 of a container it would hear nothing. What has come is kept, wherever it ends.
    signal.signal(signal.SIGTERM, _stop)
    # Workers read the files as another user.
    os.umask(0o022)
    try:
        _fetch(given, token)
    except FetchError as error:
        return _ended(str(error), error.status)
    except BlobMissing as error:
        return _ended(str(error), WrongContent.status)
    except StoreFull as error:
        return _ended(_no_room(given, f"{error.missing_bytes:,} bytes are missing."), NoRoom.status)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return _ended(_no_room(given, f"{error.strerror}."), NoRoom.status)
        return _ended(f"{given.cache}: {error.strerror or error}. Look at the machine's directory.", 1)
    except StoreUnavailable as error:
        return _ended(str(error), 1)
    return 0


def command_line() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("serving.fetch", description=__doc__)
    parser.add_argument("--url", required=True, type=_url, help="address of Slipway")
    parser.add_argument("--version-id", required=True, type=int)
    parser.add_argument("--digest", required=True, type=_digest, help="of the version, sha256 in hex")
    parser.add_argument("--cache", required=True, type=Path, help="directory of the machine")
    parser.add_argument("--most-gib", type=float, default=0.0, help="of the cache; 0: what the disk holds")
    parser.add_argument("--spare-minutes", type=float, default=60.0,
                        help="what was asked for, or seen held, later than that stays")  # fmt: skip
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--patience-seconds", type=float, default=300.0,
                        help="how long nothing may come")  # fmt: skip
    return parser


def _url(text: str) -> str:
    if not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#]*)?", text):
        raise argparse.ArgumentTypeError("give the address of Slipway, https://...")
    return text


def _digest(text: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{64}", text):
        raise argparse.ArgumentTypeError("64 hex digits")
    return text


def _fetch(given: argparse.Namespace, token: str) -> None:
    plane = ControlPlane(
        given.url,
        token,
        connections=given.connections,
        patience_seconds=given.patience_seconds,
        say=_say,
    )

    def source(sha256: str, size: int, start: int) -> Iterator[bytes]:
        return plane.content(given.version_id, sha256, size, start)

    limit, spare = int(given.most_gib * GIB), timedelta(minutes=given.spare_minutes)
    cache = NodeCache(given.cache, source, limit_bytes=limit, spare=spare)
    cache.make()
    lists = given.cache / "manifests"
    lists.mkdir(exist_ok=True)
    known = _kept(lists / given.digest)
    if known and cache.directories.mark_use(known):
        _say(f"All of it is here: {given.cache}/versions/{given.digest}")
        return
    told = plane.files_of(given.version_id)
    manifest = _checked(told, given.digest)
    _keep(lists / given.digest, manifest)
    try:
        with _telling(str(told.get("version") or given.digest[:12]), cache, manifest):
            directory = cache.materialise(manifest)
    finally:
        plane.close()
    if limit and (used := cache.used_bytes()) > limit:
        _say(
            f"The cache holds {used:,} bytes, more than its {limit:,}: every version in it is in use, or was "
            f"less than {given.spare_minutes:g} minutes ago."
        )
    _say(f"All of it is here: {directory}")


def _checked(told: Mapping[str, Any], digest: str) -> FileManifest:
    try:
        manifest = manifest_of(
            ManifestFile(str(one["path"]), int(one["size"]), str(one["sha256"])) for one in told["files"]
        )
    except (KeyError, TypeError, ValueError):
        raise Refused("The list of files is not one. Is --url the address of Slipway?") from None
    except BadManifest as error:
        raise WrongContent(f"The list of files is refused: {error}") from None
    if manifest.digest != digest:
        raise WrongContent(
            f"The list of files has the digest {manifest.digest[:12]}…, and the pod wants {digest[:12]}…. "
            "Something between this machine and Slipway changed it, or the pod is of another installation."
        )
    return manifest


def _kept(path: Path) -> FileManifest | None:
    """The list that an earlier fetch has left: with it a version that is here needs no control plane."""
    try:
        return _checked(json.loads(path.read_bytes()), path.name)
    except (OSError, ValueError, FetchError):
        return None


def _keep(path: Path, manifest: FileManifest) -> None:
    files = [{"path": one.path, "size": one.size, "sha256": one.sha256} for one in manifest.files]
    part = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with part.open("w") as file:
            json.dump({"files": files}, file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    sync_directory(path.parent)


@contextmanager
def _telling(version: str, cache: NodeCache, manifest: FileManifest) -> Iterator[None]:
    """A line now and then of what is on the disk, whichever process of the machine brings it."""
    over = threading.Event()

    def tell() -> None:
        begun, before = time.monotonic(), cache.come_bytes(manifest)
        _say(FetchProgress(version, before, manifest.size_bytes, 0).line())
        while not over.wait(TELL_EVERY_SECONDS):
            now, come = time.monotonic(), cache.come_bytes(manifest)
            rate = max(0, int((come - before) / (now - begun)))
            _say(FetchProgress(version, come, manifest.size_bytes, rate).line())
            begun, before = now, come

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()


def _no_room(given: argparse.Namespace, why: str) -> str:
    return (
        f"The machine's disk below {given.cache} is full: {why} Free space on it, or let its cache hold less "
        "(node_cache_gib of the cluster). Versions that pods of this machine use are not given up."
    )


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _ended(text: str, status: int) -> int:
    _say(f"serving.fetch: {text}")
    return status


def _stop(_number: int, _frame: object) -> NoReturn:
    os.write(2, b"serving.fetch: It was stopped. What has come is kept.\n")
    os._exit(STOPPED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
