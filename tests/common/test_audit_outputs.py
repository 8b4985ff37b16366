"""Every entry of the audit record reaches its outputs, once and in order, whoever restarts meanwhile."""

import json
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from accounts.models import AuditOutput
from accounts.reconcilers import audit_outputs as reconciler
from accounts.services import audit_outputs
from common.audit.outputs import entry_of
from common.audit_places import checked
from common.models import AuditRecord
from common.reconcile import Kernel
from tests.certificates import self_signed
from tests.common.test_audit import write
from tests.patience import eventually
from tests.ports import PortBlock

pytestmark = pytest.mark.django_db(transaction=True)

Cut = Callable[[int], bool]


class Receiver:
    """A receiver of streams: keeps what it is sent, closes when the sender ends or `cuts` says so."""

    def __init__(self, listener: socket.socket, *, tls: ssl.SSLContext | None = None) -> None:
        self.received = b""
        self.cuts: Cut = lambda _: False
        """Asked after each piece, by how much of the connection was read: whether it breaks there."""
        self._listener, self._tls = listener, tls
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                stream, _ = self._listener.accept()
                with self._tls.wrap_socket(stream, server_side=True) if self._tls else stream as peer:
                    self._read(peer)
            except OSError:
                if self._listener.fileno() < 0:
                    return

    def _read(self, peer: socket.socket) -> None:
        read = b""
        while piece := peer.recv(500):
            read += piece
            if self.cuts(len(read)):
                # As a process that is killed: what it has not read is reset.
                return
        self.received += read

    def close(self) -> None:
        self._listener.close()


def tcp(port: int = 0) -> socket.socket:
    return socket.create_server(("127.0.0.1", port), backlog=5)


def unix(path: Path, kind: socket.SocketKind) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, kind)
    made.bind(str(path))
    if kind is socket.SOCK_STREAM:
        made.listen()
    return made


def messages(received: bytes) -> list[bytes]:
    """Split received syslog messages by octet counting."""
    found = []
    while received:
        length, _, rest = received.partition(b" ")
        found.append(rest[: int(length)])
        received = rest[int(length) :]
    return found


def entries(syslog: list[bytes]) -> list[dict[str, object]]:
    read = []
    for message in syslog:
        head = re.fullmatch(rb"<110>1 \d{4}-\d\d-\d\dT[\d:.]{15}Z [\w.-]+ slipway - audit - ({.*})", message)
        assert head, message
        read.append(json.loads(head[1]))
    return read


def record() -> list[dict[str, object]]:
    return [json.loads(json.dumps(entry_of(one))) for one in AuditRecord.objects.order_by("seq")]


class Delivery:
    """An output of that place, and steps of its row."""

    def __init__(self, place: str) -> None:
        audit_outputs.take_over([checked(place)])
        self.again()

    def again(self) -> None:
        """Another process than before."""
        self._kernel = Kernel(clock=lambda: timezone.now() + timedelta(hours=1))
        self._kernel.register(reconciler.AuditOutputReconciler())

    def step(self) -> AuditOutput:
        AuditOutput.objects.update(next_at=timezone.now())
        self._kernel.advance("accounts.auditoutput", AuditOutput.objects.get().pk)
        return AuditOutput.objects.get()


@pytest.fixture
def certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    authority, key = tmp_path / "ca.pem", tmp_path / "key.pem"
    self_signed(authority, key, of="IP:127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority, key)
    return context


@pytest.fixture(params=["tcp", "tls"])
def stream(request: pytest.FixtureRequest) -> Iterator[tuple[str, Receiver]]:
    listener = tcp()
    context = request.getfixturevalue("certificate") if request.param == "tls" else None
    receiver = Receiver(listener, tls=context)
    yield f"syslog+{request.param}://127.0.0.1:{listener.getsockname()[1]}", receiver
    receiver.close()


def test_entries_reach_a_receiver_of_syslog_once_and_in_order(
    stream: tuple[str, Receiver], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciler, "BATCH", 3)
    place, receiver = stream
    delivery = Delivery(place)
    write(7)
    assert delivery.step().seq == 7
    write(1)
    delivery.again()
    assert delivery.step().seq == 8
    assert delivery.step().seq == 8
    eventually(lambda: entries(messages(receiver.received)) == record())


def test_what_a_receiver_was_sent_and_had_not_read_when_it_died_is_sent_again(
    stream: tuple[str, Receiver],
) -> None:
    place, receiver = stream
    delivery = Delivery(place)
    write(40)
    receiver.cuts = lambda read: read > 5_000
    row = delivery.step()
    assert (row.seq, row.stuck_at) == (0, None)
    assert "127.0.0.1" in row.last_error
    receiver.cuts = lambda _: False
    assert delivery.step().seq == 40
    eventually(lambda: entries(messages(receiver.received)) == record())


def test_while_a_receiver_is_away_entries_wait_and_nobody_is_refused(tmp_path: Path) -> None:
    port = PortBlock()[0]
    delivery = Delivery(f"syslog+tcp://127.0.0.1:{port}")
    write(2)
    assert (delivery.step().seq, AuditOutput.objects.get().failed_since is None) == (0, False)
    write(2)
    receiver = Receiver(tcp(port))
    assert delivery.step().seq == 4
    assert AuditOutput.objects.get().failed_since is None
    eventually(lambda: entries(messages(receiver.received)) == record())
    receiver.close()


def test_a_file_a_socket_of_this_machine_and_datagrams_have_every_entry_too(tmp_path: Path) -> None:
    write(3)
    file = tmp_path / "audit.jsonl"
    file.write_text('{"cut off')
    assert Delivery(f"file://{file}").step().seq == 3
    assert [json.loads(line) for line in file.read_text().splitlines()[1:]] == record()

    receiver = Receiver(unix(tmp_path / "stream", socket.SOCK_STREAM))
    assert Delivery(f"unix://{tmp_path / 'stream'}").step().seq == 3
    eventually(lambda: [json.loads(line) for line in receiver.received.splitlines()] == record())
    receiver.close()

    for place, listener in (
        (f"syslog+unix://{tmp_path / 'log'}", unix(tmp_path / "log", socket.SOCK_DGRAM)),
        ("syslog+udp://127.0.0.1:{}", socket.socket(socket.AF_INET, socket.SOCK_DGRAM)),
    ):
        with listener:
            listener.settimeout(5)
            if listener.family == socket.AF_INET:
                listener.bind(("127.0.0.1", 0))
                place = place.format(listener.getsockname()[1])
            assert Delivery(place).step().seq == 3
            assert entries([listener.recv(65_536) for _ in range(3)]) == record()


def test_outputs_are_those_of_the_setting_and_a_host_leaves_files_of_others_alone(
    settings: object, tmp_path: Path
) -> None:
    network, local = "syslog+tcp://log.example:601", "file:///var/log/audit.jsonl"
    audit_outputs.take_over([network, local])
    AuditOutput.objects.update(seq=5)
    AuditOutput.objects.create(place=local, host="elsewhere")
    audit_outputs.take_over([network, local])
    assert AuditOutput.objects.filter(seq=5).count() == 2
    audit_outputs.take_over([])
    assert AuditOutput.objects.get().host == "elsewhere"


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("syslog://host", "must begin with one of"),
        ("syslog+tcp://", "must name a host and a port alone"),
        ("syslog+tcp://host/path", "must name a host and a port alone"),
        ("syslog+tls://name:secret@host", "must name a host and a port alone"),
        ("syslog+udp://host:port", "Port could not be cast"),
        ("file://var/log/audit", "must name an absolute path"),
        ("unix:///", "must name an absolute path"),
    ],
)
def test_what_is_no_output_is_refused_with_the_reason(place: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        checked(place)
