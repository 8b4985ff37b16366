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
    if not (workers.isdecimal() and attempt.isdecimal()):
        return False
    return _is_kept(headers) and int(attempt) < int(workers)


def may_pass_on(headers: Mapping[str, str]) -> bool:
    """Return whether the gateway asks a worker of the other group if this one's queue is full: once."""
    return headers.get(ATTEMPT_HEADER) == "1" and _is_kept(headers)


def _is_kept(headers: Mapping[str, str]) -> bool:
    """Return whether Envoy keeps the body for another attempt."""
    length = headers.get("content-length") or "0"
    return "transfer-encoding" not in headers and length.isdecimal() and int(length) <= LONGEST_BODY_BYTES
