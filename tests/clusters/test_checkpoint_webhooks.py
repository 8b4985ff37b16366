"""A webhook is asked for checkpoints before pods are evicted: until it says done, or the time is up."""

import json
from typing import Any

import pytest

from clusters.draining import checkpoint_webhook
from clusters.draining.checkpoints import times_of, words_of
from clusters.draining.options import DrainOptions, NamespacePolicy, PodPolicy, namespaces_of, text_of
from clusters.services.drains import drain_node
from clusters.states import DrainState
from common.errors import Invalid
from common.models import AuditRecord
from common.webhooks.sending import DeliveryResponse
from common.webhooks.signing import sign
from tests.clusters.test_drains import REASON, SYSTEM, Draining

pytestmark = pytest.mark.django_db
SECRET = "whsec_c2VjcmV0LW9mLWEtdGVzdC13aXRoLTMyLWJ5dGVz"
URL = "https://hooks.example.org/checkpoint"
ASKING = {"theirs": NamespacePolicy(checkpoint_url=URL)}


class Receiver:
    """Answers as a test tells it, and keeps what was asked."""

    def __init__(self) -> None:
        self.answer = DeliveryResponse(200, 1, '{"state": "wait", "words": "half of it"}')
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []

    def __call__(
        self, _url: str, *, body: bytes, headers: dict[str, str], **_options: Any
    ) -> DeliveryResponse:
        self.asked.append(json.loads(body))
        self.headers.append(headers)
        signed = sign(
            SECRET,
            message_id=headers["webhook-id"],
            timestamp=int(headers["webhook-timestamp"]),
            body=body,
        )
        assert headers["webhook-signature"] == signed
        return self.answer


@pytest.fixture
def scene(settings: Any) -> Draining:
    settings.SLIPWAY_CHECKPOINT_WEBHOOK_SECRET = SECRET
    return Draining()


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Receiver:
    found = Receiver()
    monkeypatch.setattr(checkpoint_webhook.ask, "__kwdefaults__", {"post": found})
    return found


def test_a_pod_is_evicted_when_its_webhook_says_done_and_not_before(
    scene: Draining, receiver: Receiver
) -> None:
    scene.stands("train-0", gpus={"nvidia.com/gpu": 8})
    scene.stands("web-0", namespace="others")
    row = scene.drain(namespaces=ASKING)
    scene.pass_(20)
    assert scene.evicted() == {"web-0"}
    assert 3 <= len(receiver.asked) <= 6, "it is asked again, and not all the time"
    assert len({one["webhook-id"] for one in receiver.headers}) == 1
    assert (receiver.asked[0]["pod"]["name"], receiver.asked[0]["machine"]) == ("train-0", "fake-node")
    assert "Waiting for train-0 (its webhook: half of it)" in scene.now(row).problem

    receiver.answer = DeliveryResponse(200, 1, '{"state": "done"}')
    scene.pass_(12)
    row = scene.now(row)
    assert row.state == DrainState.DRAINED
    assert words_of(row.pods) == "1 of 1 pods have written a checkpoint."
    assert "train-0 asked " in times_of(row.pods)
    said = AuditRecord.objects.filter(action__startswith="node.drain.checkpoint").order_by("pk")
    assert [one.action.rpartition("_")[2] for one in said] == ["asked", "done"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (DeliveryResponse(503, 1), "HTTP 503"),
        (DeliveryResponse(None, 1, error="No answer within 4 s."), "No answer within 4 s."),
        (DeliveryResponse(200, 1, "ok"), "It answers neither"),
    ],
)
def test_a_webhook_that_fails_is_tried_until_the_time_is_up_and_the_drain_says_so(
    scene: Draining, receiver: Receiver, answer: DeliveryResponse, words: str
) -> None:
    receiver.answer = answer
    scene.stands("train-0")
    row = scene.drain(namespaces=ASKING, checkpoint_seconds=15)
    scene.pass_(12)
    assert scene.evicted() == set()
    scene.pass_(10)
    row = scene.now(row)
    assert (row.state, len(receiver.asked)) == (DrainState.DRAINED, 3)
    assert f"Not in time: train-0 (its webhook: {words}" in words_of(row.pods)


def test_an_address_that_may_not_be_asked_or_no_secret_is_refused(scene: Draining, settings: Any) -> None:
    inside = {"theirs": NamespacePolicy(checkpoint_url="http://127.0.0.1/")}
    with pytest.raises(Invalid) as refusal:
        drain_node(actor=SYSTEM, node=scene.node, reason=REASON, options=DrainOptions(namespaces=inside))
    assert "theirs: " in refusal.value.fields["namespaces"][0]
    settings.SLIPWAY_CHECKPOINT_WEBHOOK_SECRET = ""
    with pytest.raises(Invalid) as refusal:
        drain_node(actor=SYSTEM, node=scene.node, reason=REASON, options=DrainOptions(namespaces=ASKING))
    assert "SLIPWAY_CHECKPOINT_WEBHOOK_SECRET" in refusal.value.fields["namespaces"][0]


def test_namespaces_are_written_one_a_line() -> None:
    text = f"batch = finish:1800 {URL}\nkept = leave\n* = evict"
    found = namespaces_of(text)
    assert found["batch"] == NamespacePolicy(PodPolicy.FINISH, 1800, URL)
    assert text_of(found) == text
    for wrong in ("batch", "batch = stay", "batch = evict:30", "= leave", "a = leave\na = evict"):
        with pytest.raises(ValueError, match=r"give NAME|named twice"):
            namespaces_of(wrong)
