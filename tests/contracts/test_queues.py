"""The promise of every queue that a pool scales by."""

from collections.abc import Iterator
from datetime import UTC, datetime

import botocore.auth
import botocore.awsrequest
import botocore.credentials
import pytest

from capacity.queues import kafka
from capacity.queues.base import QueueAddress, QueueSilent
from capacity.queues.kinds import KINDS
from capacity.queues.sqs import signed_headers
from capacity.states import QueueKind
from tests.contracts.queue_rigs import JobsRig, QueueRig, kafka_rig, prometheus_rig, redis_rig, sqs_rig
from tests.valkey import ValkeyServer

pytestmark = pytest.mark.process
SHOWS_HANDS = (QueueKind.JOBS, QueueKind.REDIS_STREAM, QueueKind.SQS)
COUNTS_ARRIVALS = (QueueKind.JOBS, QueueKind.REDIS_STREAM, QueueKind.KAFKA)


@pytest.fixture(params=QueueKind)
def kind(request: pytest.FixtureRequest) -> QueueKind:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def rig(kind: QueueKind, valkey: ValkeyServer, settings) -> Iterator[QueueRig]:
    settings.SLIPWAY_CLUSTER_ALLOWED_NETWORKS = ("127.0.0.0/8",)
    settings.SLIPWAY_JOBS_URL = valkey.url
    if kind == QueueKind.JOBS:
        yield JobsRig(valkey)
        return
    made = {
        QueueKind.PROMETHEUS: prometheus_rig,
        QueueKind.SQS: sqs_rig,
        QueueKind.KAFKA: kafka_rig,
    }.get(kind)
    with made() if made else redis_rig(kind) as found:
        yield found


def test_it_tells_what_waits_and_as_far_as_it_knows_what_is_in_hand_and_came(
    rig: QueueRig, kind: QueueKind
) -> None:
    assert rig.source.sample().unfinished == 0
    before = rig.source.sample().arrived
    rig.put(5)
    rig.take(2)
    seen = rig.source.sample()
    assert seen.waiting == 3
    assert seen.in_hand == (2 if kind in SHOWS_HANDS else 0)
    assert (seen.arrived is not None and before is not None) == (kind in COUNTS_ARRIVALS)
    assert (seen.arrived or 0) - (before or 0) == (5 if kind in COUNTS_ARRIVALS else 0)


def test_a_server_that_is_gone_is_silent_and_not_empty(rig: QueueRig) -> None:
    with pytest.raises(QueueSilent):
        rig.dead.sample()


def test_addresses_that_only_this_machine_reaches_are_not_asked(settings) -> None:
    settings.SLIPWAY_CLUSTER_ALLOWED_NETWORKS = ()
    for kind in KINDS.values():
        address = QueueAddress(f"{kind.schemes[0]}://127.0.0.1:9/x", "a", "b", "c:d")
        with pytest.raises(QueueSilent, match="SLIPWAY_CLUSTER_ALLOWED_NETWORKS"):
            kind.open(address).sample()


def test_requests_to_sqs_are_signed_as_amazons_own_client_signs_them() -> None:
    """Computes the signature with botocore's signer at the same moment."""
    content, host = b'{"QueueUrl": "x"}', "sqs.eu-west-1.amazonaws.com"
    address = QueueAddress("", "eu-west-1", secret="AKID:a key:a session")
    at = datetime.now(UTC)
    ours = signed_headers(host, content, address, at)
    keys = botocore.credentials.Credentials("AKID", "a key", "a session")
    known = {"content-type": ours["content-type"], "x-amz-target": ours["x-amz-target"]}
    request = botocore.awsrequest.AWSRequest("POST", f"https://{host}/", data=content, headers=known)
    signer = botocore.auth.SigV4Auth(keys, "sqs", "eu-west-1")
    request.context["timestamp"] = ours["x-amz-date"]
    request.headers["X-Amz-Date"] = ours["x-amz-date"]
    request.headers["X-Amz-Security-Token"] = "a session"
    signature = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
    assert ours["authorization"].endswith(f"Signature={signature}")


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ({"group": "typo"}, "typo has committed nothing"),
        ({"topic": "typo"}, "topic typo"),
        ({"secret": "password"}, "MECHANISM:USER:PASSWORD"),
    ],
)
def test_kafka_names_the_part_of_the_address_that_is_wrong(
    settings, place: dict[str, str], words: str
) -> None:
    settings.SLIPWAY_CLUSTER_ALLOWED_NETWORKS = ("127.0.0.0/8",)
    with kafka_rig() as rig, pytest.raises(QueueSilent, match=words):
        rig.open(**place).sample()


def test_brokers_that_kafka_names_are_judged_before_they_are_asked(
    settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.SLIPWAY_CLUSTER_ALLOWED_NETWORKS = ("127.0.0.0/8",)
    judged: list[tuple[str, int]] = []
    monkeypatch.setattr(kafka, "_judge", lambda host, port: judged.append((host, port)))
    with kafka_rig() as rig:
        assert rig.source.sample().waiting == 0
        host, _, port = rig.server.partition(":")
    assert judged == [(host, int(port))] * 2


def test_without_the_library_of_kafka_the_source_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kafka, "find_spec", lambda _name: None)
    with pytest.raises(QueueSilent, match=r"slipway\[kafka\]"):
        kafka.KafkaQueue(QueueAddress("kafka://brokers.example", "pictures", "workers")).sample()
