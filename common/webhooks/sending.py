"""One POST to a stranger: to a judged address, within a time limit, and never further than there."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import httpx2

from common.errors import SlipwayError
from common.outbound.addresses import Address
from common.outbound.client import USER_AGENT, in_words
from common.outbound.faults import TimedOut
from common.outbound.names import resolve
from common.outbound.transport import PinnedTransport, RequestDeadline, Resolve
from common.webhooks import destination as places
from common.webhooks.destination import AllowedHosts, WebhookDestination

WITHIN_SECONDS = 10.0
"""From the connection to the last byte that we read; the kernel's lease is 30 s."""
EXCERPT_BYTES = 1024
OK = range(200, 300)


@dataclass(frozen=True, slots=True)
class DeliveryResponse:
    """Response to a delivery. `error` is a sentence where no answer came, or none that counts."""

    status: int | None
    milliseconds: int
    body: str = ""
    """First KiB of the response."""
    retry_after: str = ""
    error: str = ""


def post(
    url: str,
    *,
    body: bytes,
    headers: Mapping[str, str],
    allowed: AllowedHosts,
    within_seconds: float = WITHIN_SECONDS,
    resolve: Resolve = resolve,
) -> DeliveryResponse:
    """Send it and say what came of it. Redirects are not followed: they count as a failure, and say so."""
    began = time.monotonic()
    status, answered, retry_after, error = None, b"", "", ""
    try:
        place = places.parse(url, allowed)
        judge = partial(_judge, place, allowed)
        request = httpx2.Request(
            "POST", place.url, headers={"User-Agent": USER_AGENT, **headers}, content=body
        )
        deadline = RequestDeadline(within_seconds)
        with in_words(url), PinnedTransport(judge, deadline=deadline, resolve=resolve) as transport:
            response = transport.handle_request(request)
            try:
                status = response.status_code
                retry_after = response.headers.get("Retry-After", "")
                if response.is_redirect:
                    where = response.headers["Location"][:200]
                    error = f"It redirects to {where}: give the final address."
                answered = _beginning(response.iter_raw())
            finally:
                response.close()
    except TimedOut:
        if status not in OK:
            error = f"No answer within {within_seconds:g} s."
    except SlipwayError as fault:
        # The status has decided: a body that breaks off changes nothing of it.
        if status not in OK:
            error = str(fault)
    milliseconds = round((time.monotonic() - began) * 1000)
    # PostgreSQL keeps no zero bytes.
    excerpt = answered.decode("utf-8", "replace").replace("\0", "")
    return DeliveryResponse(status, milliseconds, excerpt, retry_after, error)


def _judge(
    place: WebhookDestination, allowed: AllowedHosts, _host: str, _port: int, found: Sequence[Address]
) -> None:
    places.judge(place, found, allowed)


def _beginning(chunks: Iterable[bytes]) -> bytes:
    read = b""
    for chunk in chunks:
        read += chunk
        if len(read) >= EXCERPT_BYTES:
            break
    return read[:EXCERPT_BYTES]
