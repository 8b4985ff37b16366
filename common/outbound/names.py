"""Where a name leads, within a time limit."""

import socket
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLate

from common.outbound.addresses import Address, address_of
from common.outbound.faults import Unresolved

RESOLVE_WITHIN_SECONDS = 8.0

_resolvers = ThreadPoolExecutor(8, thread_name_prefix="resolve")


def resolve(host: str, port: int) -> list[Address]:
    """The addresses of a name, by the system's resolver, which knows no time limit: this one does.

    Raises Unresolved.
    """
    answer: Future[list[str]] = _resolvers.submit(_ask, host, port)
    try:
        return [address_of(text) for text in answer.result(timeout=RESOLVE_WITHIN_SECONDS)]
    except TooLate:
        answer.cancel()
        why = f"no answer within {RESOLVE_WITHIN_SECONDS:g} s"
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
    raise Unresolved(
        f"The name {host} cannot be resolved: {why}. Check the address, and the DNS of this server."
    )


def _ask(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
