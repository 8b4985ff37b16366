"""Names of the outputs of the audit record, as the setting has them: see `common.audit.outputs`."""

from urllib.parse import urlsplit

PORTS = {"syslog+tls": 6514, "syslog+tcp": 601, "syslog+udp": 514}
"""Of those of the network, where none is named."""
SCHEMES = (*PORTS, "syslog+unix", "unix", "file")


def checked(place: str) -> str:
    """Raises ValueError with a sentence for what names no output."""
    parts = urlsplit(place)
    if parts.scheme not in SCHEMES:
        raise ValueError(f"{place} must begin with one of {', '.join(f'{name}://' for name in SCHEMES)}")
    if is_local(place):
        if parts.netloc or not parts.path.startswith("/") or parts.path.endswith("/"):
            raise ValueError(f"{place} must name an absolute path: {parts.scheme}:///path")
    elif not parts.hostname or parts.path.strip("/") or parts.username or parts.port == 0:
        raise ValueError(f"{place} must name a host and a port alone: {parts.scheme}://host:port")
    return place


def is_local(place: str) -> bool:
    """Whether it is a file or a socket of a host, each of which has one of its own."""
    return urlsplit(place).scheme not in PORTS
