"""Addresses that an API server may have, in the words of `kube`."""

from common.outbound import own_machine
from common.outbound.faults import Forbidden, Unresolved
from common.outbound.names import resolve
from kube.errors import ApiUnreachable, BadConfig


def check_host(host: str) -> None:
    """Asks nobody. Raises BadConfig."""
    try:
        own_machine.check_host(host)
    except Forbidden as error:
        raise BadConfig(str(error)) from None


def addresses_of(host: str, port: int) -> list[str]:
    """Return the addresses to connect to. Raises BadConfig, ApiUnreachable when the name has no address."""
    try:
        found = resolve(host, port)
        own_machine.judge(host, port, found)
    except Unresolved as error:
        raise ApiUnreachable(str(error)) from None
    except Forbidden as error:
        raise BadConfig(str(error)) from None
    return [str(address) for address in found]
