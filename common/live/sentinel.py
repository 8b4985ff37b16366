"""A Redis that Sentinels look after, as a URL: `sentinel://:password@one:26379,two:26379/0?master=slipway`.

The user and the password are those of Redis; the Sentinels are asked without one.
"""

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

SCHEME = "sentinel"
DEFAULT_PORT = 26379


@dataclass(frozen=True, slots=True)
class Sentinels:
    addresses: tuple[tuple[str, int], ...]
    master: str
    database: int
    username: str
    password: str

    @classmethod
    def of(cls, url: str) -> "Sentinels | None":
        """Parse a Sentinel URL; None for a URL of another kind. Raises ValueError, without the password."""
        parts = urlsplit(url)
        if parts.scheme != SCHEME:
            return None
        account, _, hosts = parts.netloc.rpartition("@")
        username, _, password = account.partition(":")
        query = parse_qs(parts.query, keep_blank_values=True)
        (master,) = query.pop("master", [""])[:1]
        database = parts.path.strip("/") or "0"
        if not master or query or not database.isdecimal():
            raise ValueError(
                "must be sentinel://user:password@host:port,host:port/DATABASE?master=NAME, with nothing else"
            )
        addresses = tuple(_address(one) for one in hosts.split(","))
        return cls(addresses, master, int(database), unquote(username), unquote(password))

    @property
    def connection(self) -> dict[str, Any]:
        """Arguments of a connection to the master."""
        account = {"username": self.username, "password": self.password}
        return {"db": self.database, **{name: value for name, value in account.items() if value}}


def broker_url(url: str) -> str:
    """Return kombu's URL: a URL per Sentinel, joined by semicolons; their master is in `broker_options`."""
    if (found := Sentinels.of(url)) is None:
        return url.replace("unix://", "redis+socket://", 1)
    account = f"{quote(found.username, safe='')}:{quote(found.password, safe='')}@" if found.password else ""
    return ";".join(f"{SCHEME}://{account}{host}:{port}/{found.database}" for host, port in found.addresses)


def broker_options(url: str) -> dict[str, Any]:
    if (found := Sentinels.of(url)) is None:
        return {}
    return {"master_name": found.master, "sentinel_kwargs": {"socket_timeout": 1}}


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon:
        host, port = text, str(DEFAULT_PORT)
    if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise ValueError(f"{text} is no host, or host:port, of a Sentinel")
    return host, int(port)
