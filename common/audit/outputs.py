"""Places beside the database that the whole audit record is written to as it grows, in its order.

`syslog+tls://host:6514`, `syslog+tcp://host:601`, `syslog+udp://host:514`, `syslog+unix:///dev/log`: RFC
5424, a message per entry, whose text is the entry as JSON; over TCP and TLS by octet counting (RFC 6587, RFC
5425). `unix:///run/collector.sock`, `file:///var/log/slipway/audit.jsonl`: the JSON alone, a line per entry.

A stream counts as delivered when the receiver has closed it upon our end: then it has read all of it. Of
datagrams nobody knows more than that they were sent. What is not confirmed is sent again: receivers know an
entry by its `seq`.
"""

import json
import os
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from common.audit_places import PORTS
from common.errors import Unavailable
from common.hosts import this_host
from common.models import AuditRecord

CONNECT_SECONDS = 3.0
CONFIRM_SECONDS = 5.0
PRIORITY = 13 * 8 + 6
"""Facility "log audit", severity "informational"."""


def deliver(place: str, records: Sequence[AuditRecord]) -> None:
    """Raises Unavailable unless all of them are there; some may be, and come again."""
    parts = urlsplit(place)
    try:
        _KINDS[parts.scheme](parts, records)
    except OSError as error:
        raise Unavailable(f"{place}: {error.strerror or error}") from error


def entry_of(record: AuditRecord) -> Mapping[str, Any]:
    """Return all that the hash is of, with the hash, its predecessor's and the signature."""
    return {
        "seq": record.seq,
        "at": record.at.isoformat(timespec="microseconds"),
        "actor": record.actor,
        "user_id": record.user_id,
        "token_id": record.token_id,
        "address": record.address,
        "via": record.via,
        "action": record.action,
        "subject_kind": record.subject_kind,
        "subject_id": record.subject_id,
        "subject": record.subject_label,
        "team_id": record.team_id,
        "reason": record.reason,
        "detail": record.detail,
        "previous_hash": record.previous_hash,
        "hash": record.hash,
        "key_id": record.key_id,
        "signature": record.signature,
    }


def _line(record: AuditRecord) -> bytes:
    # ASCII alone, which every receiver of syslog takes as it is; a line break is always written \n.
    return json.dumps(entry_of(record), separators=(",", ":"), sort_keys=True).encode()


def _message(record: AuditRecord) -> bytes:
    at = record.at.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return f"<{PRIORITY}>1 {at} {this_host()} slipway - audit - ".encode() + _line(record)


def _framed(records: Sequence[AuditRecord]) -> bytes:
    messages = [_message(record) for record in records]
    return b"".join(b"%d %b" % (len(message), message) for message in messages)


def _lines(records: Sequence[AuditRecord]) -> bytes:
    return b"".join(_line(record) + b"\n" for record in records)


def _to_file(parts: SplitResult, records: Sequence[AuditRecord]) -> None:
    path = Path(parts.path)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "ab") as file:
        end = os.fstat(descriptor).st_size
        # What a full disk has cut off stays a line of its own.
        is_cut = end > 0 and os.pread(descriptor, 1, end - 1) != b"\n"
        file.write((b"\n" if is_cut else b"") + _lines(records))
        file.flush()
        os.fsync(descriptor)


def _to_unix_stream(parts: SplitResult, records: Sequence[AuditRecord]) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        stream.settimeout(CONNECT_SECONDS)
        stream.connect(parts.path)
        _send(stream, _lines(records))


def _to_unix_datagrams(parts: SplitResult, records: Sequence[AuditRecord]) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams:
        datagrams.settimeout(CONNECT_SECONDS)
        datagrams.connect(parts.path)
        for record in records:
            datagrams.send(_message(record))


def _to_udp(parts: SplitResult, records: Sequence[AuditRecord]) -> None:
    family, kind, protocol, _, address = _address(parts, socket.SOCK_DGRAM)
    with socket.socket(family, kind, protocol) as datagrams:
        # Connected, so that the next send fails where nobody listens on the port.
        datagrams.connect(address)
        for record in records:
            datagrams.send(_message(record))


def _to_tcp(parts: SplitResult, records: Sequence[AuditRecord]) -> None:
    with _connected(parts) as stream:
        _send(stream, _framed(records))


def _to_tls(parts: SplitResult, records: Sequence[AuditRecord]) -> None:
    context = ssl.create_default_context()
    with _connected(parts) as plain, context.wrap_socket(plain, server_hostname=parts.hostname) as stream:
        stream.sendall(_framed(records))
        stream.settimeout(CONFIRM_SECONDS)
        try:
            stream.unwrap()
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            return  # It closed without a word of TLS's own, in order all the same.


def _send(stream: socket.socket, data: bytes) -> None:
    stream.settimeout(CONFIRM_SECONDS)
    stream.sendall(data)
    stream.shutdown(socket.SHUT_WR)
    while stream.recv(4_096):
        pass


def _connected(parts: SplitResult) -> socket.socket:
    assert parts.hostname  # noqa: S101 (`checked`)
    return socket.create_connection((parts.hostname, parts.port or PORTS[parts.scheme]), CONNECT_SECONDS)


def _address(parts: SplitResult, kind: socket.SocketKind) -> Any:
    return socket.getaddrinfo(parts.hostname, parts.port or PORTS[parts.scheme], type=kind)[0]


_KINDS: Mapping[str, Callable[[SplitResult, Sequence[AuditRecord]], None]] = {
    "syslog+tls": _to_tls,
    "syslog+tcp": _to_tcp,
    "syslog+udp": _to_udp,
    "syslog+unix": _to_unix_datagrams,
    "unix": _to_unix_stream,
    "file": _to_file,
}
