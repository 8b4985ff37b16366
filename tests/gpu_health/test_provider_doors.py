"""Where events of providers come in: by a token, by a signed token, by a signature of SNS."""

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.x509.oid import NameOID
from django.test import Client

from accounts.states import Right, Role
from clusters.models import Cluster, Node
from gpu_health.models import Finding, StoredReading
from gpu_health.services import sns
from tests import cast
from tests.gpu_health.conftest import Machine

pytestmark = pytest.mark.any_database

TOPIC = "arn:aws:sns:eu-central-1:123456789012:health"
HEALTH = {
    "source": "aws.health",
    "detail": {
        "eventArn": "arn:aws:health:eu-central-1::event/EC2/AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED/abc",
        "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
        "startTime": "Tue, 24 Nov 2026 02:00:00 GMT",
        "statusCode": "upcoming",
        "affectedEntities": [{"entityValue": "i-0abc"}],
    },
}


@pytest.fixture
def provided(machine: Machine) -> Machine:
    Node.objects.filter(pk=machine.node.pk).update(provider_id="aws:///eu-central-1a/i-0abc")
    return machine


def account(team: str = "serving") -> str:
    owner = cast.person("cloud-events", **{team: Role.OPERATOR})
    return cast.token_of(owner, scopes=[Right.FLEET_EVENTS])


def post(token: str, document: Any, where: str = "") -> Any:
    return Client().post(
        f"/api/v1/gpu-health/events/{where}",
        document,
        content_type="application/json",
        headers={"Authorization": f"Bearer {token}"},
    )


def test_an_event_becomes_a_finding_of_the_machine_that_its_provider_calls_so(provided: Machine) -> None:
    token = account()

    answer = post(token, HEALTH)
    again = post(token, HEALTH)

    assert answer.json() == {"stored": 1, "known": 0, "refused": []}
    assert again.json() == {"stored": 0, "known": 1, "refused": []}
    assert Finding.objects.get().fault == "provider.host_failure"
    assert StoredReading.objects.get().node == provided.node


def test_events_of_machines_that_nobody_knows_are_refused_and_the_others_stored(provided: Machine) -> None:
    events = [
        {"id": "1", "machine": name, "fault": "provider.maintenance"} for name in ("box-1", "box-9", "")
    ]

    told = post(account(), {"events": events}).json()

    assert told["stored"] == 1
    assert [one["event"] for one in told["refused"]] == ["1", "1"]
    assert "box-9" in told["refused"][0]["reason"]
    assert "?machine=NAME" in told["refused"][1]["reason"]


def test_a_machines_own_list_is_taken_with_its_name(provided: Machine) -> None:
    listed = [
        {"Code": "system-reboot", "EventId": "e1", "State": "active", "NotBefore": "21 Jan 2027 09:00:43 GMT"}
    ]

    assert post(account(), listed, "?machine=box-1").json()["stored"] == 1


def test_a_name_that_two_clusters_have_asks_for_the_cluster(provided: Machine) -> None:
    other = Cluster.objects.create(name="spare", kind="embedded", team=provided.team)
    Node.objects.create(cluster=other, uid="box-1b", name="box-1", seen_at=datetime.now(UTC))
    event = {"events": [{"id": "1", "machine": "box-1", "fault": "provider.maintenance"}]}
    token = account()

    assert "?cluster=NAME" in post(token, event).json()["refused"][0]["reason"]
    assert post(token, event, "?cluster=gpus").json()["stored"] == 1


def test_machines_of_other_teams_are_not_known(provided: Machine) -> None:
    cast.team("elsewhere")

    told = post(account("elsewhere"), HEALTH).json()

    assert told["stored"] == 0
    assert "i-0abc" in told["refused"][0]["reason"]
    assert not StoredReading.objects.exists()


def test_a_token_of_a_worker_reports_no_events(provided: Machine) -> None:
    assert post(provided.token, HEALTH).status_code == 403


@pytest.mark.parametrize("document", [{"hello": 1}, {"Type": "Notification", "Message": "retired"}, 3])
def test_what_is_no_event_is_refused_with_the_forms_that_are_taken(provided: Machine, document: Any) -> None:
    answer = post(account(), json.dumps(document))

    assert answer.status_code == 400
    assert not StoredReading.objects.exists()


def test_a_push_of_pub_sub_is_unwrapped(provided: Machine) -> None:
    entry = {
        "insertId": "i1",
        "protoPayload": {
            "methodName": "compute.instances.hostError",
            "resourceName": "projects/p/zones/z/instances/box-1",
        },
    }
    data = base64.b64encode(json.dumps(entry).encode()).decode()

    told = post(
        account(), {"message": {"data": data, "messageId": "7"}, "subscription": "projects/p/s"}
    ).json()

    assert told["stored"] == 1


def test_a_signed_token_that_no_credential_accepts_is_no_key(provided: Machine) -> None:
    answer = post("eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJodHRwczovL2EuZXhhbXBsZSJ9.AAAA", HEALTH)

    assert answer.status_code == 401
    assert not StoredReading.objects.exists()


class Amazon:
    """Signs as SNS does, with a certificate of its own."""

    CERTIFICATE = "https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-1.pem"

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.key = rsa.generate_private_key(65537, 2048)
        self.fetched: list[str] = []
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sns.amazonaws.com")])
        now = datetime.now(UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(self.key.public_key())
            .serial_number(1)
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .sign(self.key, hashes.SHA256())
        )
        self._pem = made.public_bytes(serialization.Encoding.PEM)
        sns._key.cache_clear()
        monkeypatch.setattr(sns, "_fetch", self._fetch)

    def _fetch(self, url: str) -> bytes:
        self.fetched.append(url)
        return self._pem

    def message(self, **changed: Any) -> dict[str, Any]:
        told = {
            "Type": "Notification",
            "MessageId": "m1",
            "TopicArn": TOPIC,
            "Message": json.dumps(HEALTH),
            "Timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "SignatureVersion": "2",
            "SigningCertURL": self.CERTIFICATE,
            **changed,
        }
        signature = self.key.sign(sns.signed_text(told), PKCS1v15(), hashes.SHA256())
        return told | {"Signature": base64.b64encode(signature).decode()}


@pytest.fixture
def amazon(provided: Machine, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Amazon:
    account()
    settings.SLIPWAY_GPU_EVENT_TOPICS = (f"{TOPIC}=cloud-events",)
    return Amazon(monkeypatch)


def deliver(message: Any) -> Any:
    return Client().post(
        "/api/v1/gpu-health/events/sns/", json.dumps(message), content_type="text/plain; charset=UTF-8"
    )


def test_a_message_that_sns_has_signed_is_taken(amazon: Amazon) -> None:
    assert deliver(amazon.message()).json()["stored"] == 1


def test_a_message_of_a_named_topic_with_something_changed_is_refused(amazon: Amazon) -> None:
    message = amazon.message() | {"Message": json.dumps(HEALTH | {"id": "forged"})}

    answer = deliver(message)

    assert answer.status_code == 403
    assert not StoredReading.objects.exists()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"TopicArn": TOPIC + "2"}, "does not name this topic"),
        ({"SignatureVersion": "1"}, "SignatureVersion"),
        ({"Timestamp": "2026-01-01T00:00:00.000Z"}, "older than an hour"),
        ({"Timestamp": "2026-01-01T00:00:00"}, "not signed as"),
        ({"SigningCertURL": "https://sns.eu-central-1.amazonaws.com.evil.example/a.pem"}, "no address of"),
        ({"SigningCertURL": "http://sns.eu-central-1.amazonaws.com/a.pem"}, "no address of"),
        ({"SigningCertURL": "https://evil@sns.eu-central-1.amazonaws.com/a.pem"}, "no address of"),
    ],
)
def test_what_sns_would_not_send_is_refused_and_nothing_fetched(
    amazon: Amazon, changed: dict[str, Any], words: str
) -> None:
    answer = deliver(amazon.message(**changed))

    assert answer.status_code == 403
    assert words in answer.json()["detail"]
    assert not amazon.fetched


def test_a_subscription_to_a_named_topic_confirms_itself(amazon: Amazon) -> None:
    url = "https://sns.eu-central-1.amazonaws.com/?Action=ConfirmSubscription&Token=t"

    answer = deliver(amazon.message(Type="SubscriptionConfirmation", SubscribeURL=url, Token="t"))

    assert answer.status_code == 204
    assert amazon.fetched == [Amazon.CERTIFICATE, url]


def test_a_subscription_is_not_confirmed_at_another_address(amazon: Amazon) -> None:
    url = "https://127.0.0.1/?Action=ConfirmSubscription"

    answer = deliver(amazon.message(Type="SubscriptionConfirmation", SubscribeURL=url, Token="t"))

    assert answer.status_code == 403
    assert amazon.fetched == [Amazon.CERTIFICATE]
