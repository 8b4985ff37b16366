"""Bodies that are too large are refused before they are kept."""

import asyncio
from typing import Any

import pytest

from controlplane import bodies

PART = f"/api/v1/models/tiny/uploads/7/blobs/{'a' * 64}/"


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "MOST_BYTES", 10)
    monkeypatch.setattr(bodies, "MOST_PART_BYTES", 20)


def asked(
    path: str, chunks: list[bytes], *, method: str = "PUT", length: int | None = None
) -> tuple[int, int]:
    """The status that is answered, and how many bytes were read for it."""
    waiting, read, statuses = list(chunks), [0], []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def receive() -> dict[str, Any]:
        chunk = waiting.pop(0)
        read[0] += len(chunk)
        return {"type": "http.request", "body": chunk, "more_body": bool(waiting)}

    async def send(message: dict[str, Any]) -> None:
        statuses.append(message.get("status"))

    headers = [] if length is None else [(b"content-length", str(length).encode())]
    scope = {"type": "http", "method": method, "path": path, "headers": headers}
    asyncio.run(bodies.bounded(application)(scope, receive, send))
    return statuses[0], read[0]


def test_a_body_that_announces_too_much_is_not_read() -> None:
    assert asked("/api/v1/models/", [b"x" * 11], length=11) == (413, 0)
    assert asked("/api/v1/models/", [b"x" * 10], length=10) == (200, 10)


def test_a_body_of_unknown_length_is_read_no_further_than_its_limit() -> None:
    assert asked("/api/v1/models/", [b"x" * 6] * 100) == (413, 12)


def test_only_parts_of_uploads_may_be_larger() -> None:
    assert asked(PART, [b"x" * 20], length=20) == (200, 20)
    assert asked(PART, [b"x" * 21], length=21) == (413, 0)
    assert asked(PART, [b"x" * 20], length=20, method="POST") == (413, 0)
    assert asked(f"{PART}more/", [b"x" * 20], length=20) == (413, 0)
