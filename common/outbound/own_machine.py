"""Servers that whoever operates a team's clusters names: API servers, a Prometheus. They are in private
networks, so what is refused is what only this machine reaches: its own services, and a cloud's metadata.
"""

import ipaddress
from collections.abc import Sequence

from django.conf import settings

from common.outbound.addresses import Address, address_of, true_address
from common.outbound.faults import Forbidden

SETTING = "SLIPWAY_CLUSTER_ALLOWED_NETWORKS"
_METADATA = frozenset(
    ipaddress.ip_address(text)
    for text in (
        "168.63.129.16",  # Azure
        "100.100.100.200",  # Alibaba Cloud
        "192.0.0.192",  # Oracle Cloud
        "fd00:ec2::254",  # EC2
    )
)


def check_host(host: str) -> None:
    """Check an address, or the name of this machine, without asking anybody. Raises Forbidden."""
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        judge(host, 0, [ipaddress.ip_address("127.0.0.1")])
    try:
        found = [address_of(host)]
    except ValueError:
        return
    judge(host, 0, found)


def judge(host: str, _port: int, found: Sequence[Address]) -> None:
    """Raises Forbidden when one of its addresses is of those."""
    for address in found:
        true = true_address(address)
        if _is_refused(true) and not _is_allowed(true):
            shown = host if host == str(true) else f"{host} ({true})"
            raise Forbidden(
                f"{shown} is an address that only this machine reaches: of its own services, of its link or "
                f"of a cloud's metadata. If the server is meant to be there, name the network in {SETTING}."
            )


def _is_refused(address: Address) -> bool:
    return (
        address.is_loopback
        or address.is_link_local
        or address.is_unspecified
        or address.is_multicast
        or (address.version == 4 and (address.is_reserved or address in ipaddress.ip_network("0.0.0.0/8")))
        or address in _METADATA
    )


def _is_allowed(address: Address) -> bool:
    networks = map(ipaddress.ip_network, settings.SLIPWAY_CLUSTER_ALLOWED_NETWORKS)
    return any(network.version == address.version and address in network for network in networks)
