"""Requests to the servers of queues that speak HTTP: judged addresses, bounded in time and size."""

from collections.abc import Mapping

import httpx2

from capacity.queues.base import WITHIN_SECONDS, QueueSilent
from common.outbound import own_machine
from common.outbound.client import in_words, whole_body
from common.outbound.faults import Forbidden, HostUnreachable, Misbehaves
from common.outbound.transport import PinnedTransport, RequestDeadline

MOST_BYTES = 1024 * 1024


def post(url: str, content: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
    """Return the status and the body. Raises QueueSilent."""
    deadline = RequestDeadline(WITHIN_SECONDS)
    client = httpx2.Client(
        transport=PinnedTransport(own_machine.judge, deadline=deadline),
        timeout=WITHIN_SECONDS,
        trust_env=False,
    )
    try:
        with in_words(url), client:
            request = client.build_request(
                "POST", url, content=content, headers={"Accept-Encoding": "identity", **headers}
            )
            response = client.send(request, stream=True)
            return response.status_code, whole_body(
                response, limit_bytes=MOST_BYTES, limit_seconds=WITHIN_SECONDS
            )
    except (HostUnreachable, Misbehaves, Forbidden) as error:
        raise QueueSilent(str(error)) from None
    finally:
        deadline.close()
