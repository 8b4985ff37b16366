"""Has a worker without a free slot refuse a request, so that the gateway asks another worker (ADR 134)."""

from collections.abc import Mapping

from serving.protocol import ATTEMPT_HEADER, OVERFLOW_HEADER

LONGEST_BODY_BYTES = 1_000_000
"""Envoy keeps a body of up to 1 MiB for another attempt; else the refusal would reach the client."""
REFUSED = {OVERFLOW_HEADER: "full"}
"""Headers of the refusal."""


def may_overflow(headers: Mapping[str, str]) -> bool:
    """Return whether the gateway asks another worker if this one refuses; the last one it asks keeps it."""
    workers, attempt = headers.get(OVERFLOW_HEADER, ""), headers.get(ATTEMPT_HEADER) or "1"
    length = headers.get("content-length") or "0"
    if not (workers.isdecimal() and attempt.isdecimal() and length.isdecimal()):
        return False
    has_length = "transfer-encoding" not in headers
    return has_length and int(length) <= LONGEST_BODY_BYTES and int(attempt) < int(workers)
