"""Which addresses belong to the public internet, whatever an address of a translator or a tunnel hides."""

import ipaddress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from urllib.parse import urlsplit

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})

_SPECIAL: tuple[Network, ...] = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8",
        "100.64.0.0/10",
        "168.63.129.16/32",  # Azure's metadata and DNS: a public number that never leaves the machine's host
        "192.0.0.0/24",
        "192.88.99.0/24",
        "198.18.0.0/15",
        "240.0.0.0/4",
        "fec0::/10",
        "2001::/23",
        "3fff::/20",
        "5f00::/16",
    )
)
_NAT64 = tuple(ipaddress.IPv6Network(text) for text in ("64:ff9b::/96", "64:ff9b:1::/48"))
_COMPATIBLE = ipaddress.IPv6Network("::/96")


def address_of(text: str) -> Address:
    """Parse an address as a resolver writes it, with or without a zone. Raises ValueError."""
    return ipaddress.ip_address(text.partition("%")[0])


def is_public(address: Address) -> bool:
    """Neither private, shared, loopback, link-local, multicast, reserved, nor a cloud's metadata service.

    Of an address that stands for another one, ask for its `true_address`.
    """
    return (
        address.is_global
        and not address.is_multicast
        and not address.is_reserved
        and not any(address in network for network in _SPECIAL if network.version == address.version)
    )


def is_http_of_this_machine(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "http" and parts.hostname in LOOPBACK_HOSTS


def true_address(address: Address) -> Address:
    """The IPv4 address to which an IPv6 one of a translator or a tunnel leads; else the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if any(address in network for network in _NAT64) or (address in _COMPATIBLE and int(address) > 1):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address
