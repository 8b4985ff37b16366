"""Where a webhook may go: to public addresses, and to those that the installation allows by name or network.

What can be said of its URL is judged when it is given; where its name leads, at each request, by
`common.outbound.transport`.
"""

import ipaddress
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from urllib.parse import urlsplit

import httpx2

from common.errors import Invalid
from common.outbound.addresses import Address, Network, is_public, true_address
from common.outbound.faults import Forbidden
from common.outbound.transport import PORTS

LONGEST_URL = 2_000
SETTING = "SLIPWAY_WEBHOOK_ALLOWED_HOSTS"
NOT_PRIVATE = f"Only https keeps what is sent from others' eyes. Or name the host in {SETTING}."

_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(\.(?!-)[a-z0-9_-]{1,63}(?<!-))*\.?")
_NUMBERS = re.compile(r"(0x[0-9a-f]*|\d+)(\.(0x[0-9a-f]*|\d+))*\.?")
"""Spellings that the resolver takes for an IPv4 address: 127.1, 0x7f000001, 2130706433, 0177.0.0.1."""


@dataclass(frozen=True, slots=True)
class WebhookDestination:
    scheme: str
    host: str
    """As in the URL, lower case, an IPv6 address without its brackets: what TLS and `Host` name."""
    port: int
    target: str
    """Path and query."""

    @property
    def url(self) -> httpx2.URL:
        """URL of the parts that were judged: another reading of what was typed leads nowhere else."""
        return httpx2.URL(
            scheme=self.scheme, host=self.host, port=self.port, raw_path=self.target.encode("ascii")
        )


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """Hosts that SLIPWAY_WEBHOOK_ALLOWED_HOSTS lets pass beside the public internet."""

    names: frozenset[str] = frozenset()
    """`hooks.internal`, or `.internal` for all names below it."""
    networks: tuple[Network, ...] = ()

    @classmethod
    def of(cls, entries: Sequence[str]) -> "AllowedHosts":
        """Raises ValueError for an entry that is neither a network nor a name."""
        names, networks = set(), []
        for entry in entries:
            try:
                networks.append(ipaddress.ip_network(entry))
            except ValueError:
                name = entry.lower().removeprefix("*")
                if not _NAME.fullmatch(name.removeprefix(".")) or _NUMBERS.fullmatch(name):
                    raise ValueError(
                        f"{entry} is neither a host name nor a network such as 10.0.0.0/8"
                    ) from None
                names.add(name.rstrip("."))
        return cls(frozenset(names), tuple(networks))

    def has_name(self, host: str) -> bool:
        host = host.rstrip(".")
        parents = (host[place:] for place, letter in enumerate(host) if letter == ".")
        return host in self.names or any(parent in self.names for parent in parents)

    def has_address(self, address: Address) -> bool:
        return any(address in network for network in self.networks if network.version == address.version)


def parse(url: str, allowed: AllowedHosts) -> WebhookDestination:
    """Check a URL without asking anybody. Raises Invalid, for the field `url`."""
    try:
        destination = _parsed(url)
        literal = _literal(destination.host)
        if literal is not None:
            judge(destination, [literal], allowed)
        elif not allowed.has_name(destination.host):
            _judge_name(destination, allowed)
    except (ValueError, Forbidden) as error:
        raise Invalid(fields={"url": [str(error)]}) from None
    return destination


def judge(destination: WebhookDestination, found: Sequence[Address], allowed: AllowedHosts) -> None:
    """Raises Forbidden unless each of the addresses is public, and reached over https, or is allowed."""
    if allowed.has_name(destination.host):
        return
    for address in found:
        true = true_address(address)
        if allowed.has_address(true) or allowed.has_address(address):
            continue
        if not is_public(true):
            shown = destination.host if destination.host == str(true) else f"{destination.host} ({true})"
            raise Forbidden(
                f"{shown} is not an address of the public internet. To send there all the same, "
                f"name it in {SETTING}."
            )
        if destination.scheme != "https":
            raise Forbidden(NOT_PRIVATE)


def _parsed(url: str) -> WebhookDestination:
    if len(url) > LONGEST_URL:
        raise ValueError(f"Give an address of at most {LONGEST_URL} characters.")
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise ValueError("Give an address of visible ASCII characters, without backslashes.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("This is no address of a web server.") from None
    if parts.scheme not in PORTS or not parts.hostname:
        raise ValueError("Give an address such as https://hooks.example.org/slipway.")
    if parts.username is not None or parts.password is not None:
        raise ValueError("An address must not hold a password: what is sent is signed, verify that.")
    if "#" in url:
        raise ValueError("Leave out what follows the #: it never reaches a server.")
    if port == 0 or parts.netloc.endswith(":"):
        raise ValueError("Give a port between 1 and 65535, or none.")
    host = parts.hostname.lower()
    literal = _literal(host)
    if literal is not None:
        host = str(literal)
    elif not (_NAME.fullmatch(host) and len(host) <= 253):
        raise ValueError(f"{host} is no host name.")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return WebhookDestination(parts.scheme, host, port or PORTS[parts.scheme], target)


def _judge_name(destination: WebhookDestination, allowed: AllowedHosts) -> None:
    host = destination.host.rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        raise Forbidden(f"{host} is this machine. To send there all the same, name it in {SETTING}.")
    if destination.scheme != "https" and not allowed.networks:
        raise Forbidden(NOT_PRIVATE)


def _literal(host: str) -> Address | None:
    """The address that the host is, in any of the spellings that a resolver accepts."""
    if "%" in host:
        raise ValueError("An address must not name a zone.")
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        if ":" in host:
            raise ValueError(f"{host} is no IPv6 address.") from None
    if not _NUMBERS.fullmatch(host):
        return None
    try:
        return IPv4Address(socket.inet_aton(host.rstrip(".")))
    except OSError:
        raise ValueError(f"{host} is no IPv4 address.") from None
