"""Envoy's files as documents, with what goes wrong in the gateway's words."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from common import files
from gateway.errors import GatewayBusy, GatewayError

LOCK_WITHIN_SECONDS = 6.0


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
    """Put the document in place of the file. Raises GatewayError, with the old one in place."""
    content = orjson.dumps(document, option=orjson.OPT_INDENT_2)
    try:
        files.replace(path, content)
    except OSError as error:
        raise GatewayError(f"{path} cannot be written: {error.strerror or error}.") from None


@contextmanager
def held(path: Path, *, within_seconds: float = LOCK_WITHIN_SECONDS) -> Iterator[None]:
    """Hold the lock of this file against every other thread and process. Raises GatewayBusy."""
    try:
        with files.held(path, within_seconds=within_seconds):
            yield
    except files.FileBusy as error:
        raise GatewayBusy(f"{error} Try again.") from None
