"""What answers of hubs say in their headers, whichever protocol they speak."""

import re
from datetime import UTC, datetime, timedelta

import httpx2

from common.retry import retry_after
from hubs.backends.base import FileStream, HubFile, HubMisbehaves
from model_store.paths import printable

DEFAULT_WAIT, LONGEST_WAIT = timedelta(seconds=30), timedelta(hours=1)

_RESET = re.compile(r";\s*t\s*=\s*(\d{1,6})")
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


def part_headers(file: HubFile, *, offset: int, length: int | None) -> dict[str, str]:
    """Return headers that ask for `length` bytes of a file from `offset` on; for all of them if it is
    None.
    """
    end = file.size if length is None else min(offset + length, file.size)
    return {"Range": f"bytes={offset}-{end - 1}"} if offset > 0 or end < file.size else {}


def stream_of(answer: httpx2.Response, file: HubFile, *, offset: int) -> FileStream:
    """The bytes of a file, of all of it or of the part that was asked for.

    Raises HubMisbehaves when it is another part, or of a file of another size.
    """
    if answer.status_code != 206:
        return FileStream(0, answer.iter_raw())
    told = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
    if told and told[3] not in ("*", str(file.size)):
        raise HubMisbehaves(
            f"The hub lists {printable(file.path)} with {file.size:,} bytes and sends it with "
            f"{int(told[3]):,}. Sync again; if it stays so, the hub is at fault."
        )
    if told is None or int(told[1]) != offset:
        raise HubMisbehaves(f"The hub sends another part of {printable(file.path)} than was asked for.")
    return FileStream(offset, answer.iter_raw())


def wait_seconds(answer: httpx2.Response) -> float:
    """Until the limit is reset: `RateLimit: "api";r=0;t=55` (draft-ietf-httpapi-ratelimit-headers), or
    `Retry-After`.
    """
    if reset := _RESET.search(answer.headers.get("RateLimit", "")):
        return min(float(reset[1]) + 1, LONGEST_WAIT.total_seconds())
    asked = retry_after(answer.headers.get("Retry-After", ""), now=datetime.now(UTC), longest=LONGEST_WAIT)
    return (DEFAULT_WAIT if asked is None else asked).total_seconds()
