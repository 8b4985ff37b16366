"""Before traffic a plan may demand a signature, right answers and another system's consent."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import orjson
import pytest

from accounts.services.webhooks import IssuedWebhook, create_webhook
from common.webhooks.sending import DeliveryResponse
from model_store import blob_store
from model_store.file_manifest import FileManifest, ManifestFile
from models_registry.models import Evaluation, VersionFile
from releases import answers
from releases.answers import BadLabelledSet, LabelledItem, WorkerAnswer, read_items, score
from releases.errors import InvalidPlan, NotReleasable
from releases.models import Release
from releases.plans.plan import parse_plan
from releases.services.plan import save_plan
from releases.states import ReleaseState as S
from releases.steps.webhook import answer_of
from tests.cast import SYSTEM
from tests.clusters.world import version_of
from tests.releases.world import Scene
from tests.trust.test_signing import new_key
from tests.webhooks.receiver import Receiver, Reply, receiving
from trust.services import trust_key

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.any_database]

DEPLOY, PROMOTE = {"kind": "deploy", "share_percent": 100}, {"kind": "promote"}
WEIGHT, APPROVAL = {"kind": "weight", "percent": 30}, {"kind": "approval"}


def follow(scene: Scene, *steps: dict) -> Release:
    save_plan(actor=SYSTEM, team=scene.team, name="careful", body={"steps": [*steps, PROMOTE]})
    return scene.start(plan_name="careful")


def keep_set(scene: Scene, root: Path, lines: Sequence[dict]) -> None:
    """Put the file `tests:v1/items.jsonl` into the registry."""
    path = root / "items.jsonl"
    path.write_text("".join(f"{json.dumps(one)}\n" for one in lines))
    version = version_of(scene.team, "tests:v1")
    with path.open("rb") as file, blob_store.store().staging("tests-1") as staging:
        held = staging.take(file.fileno(), path.stat().st_size, counted=lambda _count: None)
    blob_store.store().publish("tests-1", FileManifest((ManifestFile(path.name, held.size, held.sha256),)))
    file_row = {"path": path.name, "size": held.size, "sha256": held.sha256, "format": "text"}
    VersionFile.objects.bulk_create([VersionFile(version=version, **file_row)])


@pytest.fixture
def labelled(
    scene: Scene, tmp_path: Path, settings, monkeypatch: pytest.MonkeyPatch
) -> Callable[[int, Callable[[int, str], bool]], None]:
    """Let the registry hold so many questions, and workers know the answers by number and version."""
    settings.SLIPWAY_STORE_DIR = tmp_path / "models"

    def hold(number: int, knows: Callable[[int, str], bool]) -> None:
        keep_set(
            scene,
            tmp_path,
            [{"prompt": f"{one} plus one is", "answer": f"{one + 1}"} for one in range(number)],
        )

        class AskedWorkers:
            def ask_all(
                self, asked: Sequence[tuple[str, str, LabelledItem]], **_: object
            ) -> list[WorkerAnswer]:
                return [self._answer(model, int(item.prompt.split()[0])) for _url, model, item in asked]

            def _answer(self, model: str, one: int) -> WorkerAnswer:
                return WorkerAnswer(f" {one + 1}, surely." if knows(one, model) else " No idea.")

        monkeypatch.setattr(answers, "source", AskedWorkers())

    return hold


EVALUATE = {"kind": "evaluate", "items": "tests:v1/items.jsonl", "margin_percent": 5}


def test_a_candidate_that_answers_as_well_goes_on_and_its_share_is_kept(scene: Scene, labelled) -> None:
    labelled(200, lambda one, _model: one % 10 != 0)
    release = follow(scene, DEPLOY, EVALUATE)
    scene.run_until_state(S.PROMOTED)
    detail = release.steps.get(kind="evaluate").detail
    assert (detail["candidate"], detail["stable"], detail["estimate"]["verdict"]) == (0.9, 0.9, "passed")
    assert Evaluation.objects.get(version=scene.v2, name="accuracy").value == 0.9


def test_a_candidate_that_answers_worse_never_gets_a_request(scene: Scene, labelled) -> None:
    labelled(120, lambda one, model: model == str(scene.v1) or one % 3 != 0)
    release = follow(scene, DEPLOY, EVALUATE)
    scene.run_until_state(S.FAILED)
    assert "worse by more than the margin of -5.0 points" in scene.release.outcome
    assert set(scene.split(50)) == {scene.stable}
    lost = release.steps.get(kind="evaluate").detail["lost"]
    assert lost[0] == {"item": "0 plus one is", "candidate": " No idea.", "stable": " 1, surely."}


@pytest.mark.parametrize(("then", "state"), [("fail", S.FAILED), ("ask", S.WAITING_APPROVAL)])
def test_too_few_items_are_said_and_decide_nothing(scene: Scene, labelled, then: str, state: S) -> None:
    labelled(24, lambda one, model: model == str(scene.v1) or one != 3)
    release = follow(scene, DEPLOY, {**EVALUATE, "on_too_few": then}, APPROVAL)
    scene.run_until_state(state)
    step = release.steps.get(kind="evaluate")
    assert step.detail["estimate"]["verdict"] == "needs_items"
    assert step.detail["estimate"]["needed_items"] > 24


def test_items_that_stable_does_not_answer_do_not_count(scene: Scene, labelled, monkeypatch) -> None:
    labelled(30, lambda *_: True)

    class Broken:
        def ask_all(self, asked, **_: object) -> list[WorkerAnswer]:
            return [
                WorkerAnswer("", "HTTP 500") if model == str(scene.v1) else WorkerAnswer("1")
                for _u, model, _i in asked
            ]

    monkeypatch.setattr(answers, "source", Broken())
    follow(scene, DEPLOY, EVALUATE)
    scene.run_until_state(S.FAILED)
    assert "Stable answered 0 of 30 items" in scene.release.outcome


def test_a_set_that_is_not_there_or_too_small_is_refused_before_the_start(scene: Scene, labelled) -> None:
    with pytest.raises(NotReleasable, match="has no ready version tests:v1"):
        follow(scene, DEPLOY, EVALUATE)
    labelled(5, lambda *_: True)
    with pytest.raises(NotReleasable, match="5 items; 20 are needed"):
        follow(scene, DEPLOY, EVALUATE)


def test_quality_comes_before_traffic() -> None:
    for step in (EVALUATE, {"kind": "verify_signature"}):
        with pytest.raises(InvalidPlan):
            parse_plan({"name": "x", "steps": [DEPLOY, WEIGHT, step, PROMOTE]})
    for step in ({**EVALUATE, "items": "tests"}, {"kind": "compare_answers", "requests": "tests:v1/a b"}):
        with pytest.raises(InvalidPlan, match="Name a file of a version: model:version/path"):
            parse_plan({"name": "x", "steps": [DEPLOY, WEIGHT, step, PROMOTE]})
    with pytest.raises(InvalidPlan, match="no later approval always asks"):
        parse_plan({"name": "x", "steps": [DEPLOY, {**EVALUATE, "on_too_few": "ask"}, PROMOTE]})


def test_answers_are_right_by_their_words_or_by_what_a_route_returns() -> None:
    items = read_items(
        '{"prompt": "Capital of France?", "answer": "Paris"}\n'
        '{"prompt": "2+2", "choices": ["3", "4"], "answer": 1}\n'
        '{"path": "/classify", "body": {"text": "hm"}, "answer": {"label": "neutral"}}\n'
    )
    assert score(items[0], WorkerAnswer("It is PARIS."), "contains") == 1
    assert score(items[0], WorkerAnswer("It is PARIS."), "exact") == 0
    assert score(items[0], WorkerAnswer("comparison"), "contains") == 0
    assert score(items[1], WorkerAnswer(" 4"), "exact") == 1
    assert score(items[2], WorkerAnswer('{"label": "neutral", "score": 0.7}'), "exact") == 1
    assert score(items[2], WorkerAnswer("neutral"), "exact") == 0
    with pytest.raises(BadLabelledSet, match="Line 2"):
        read_items('{"prompt": "a", "answer": "b"}\n{"prompt": "a"}\n')


def test_an_unsigned_version_fails_where_the_plan_wants_a_signature(scene: Scene) -> None:
    with pytest.raises(NotReleasable, match="trusts no signing key"):
        follow(scene, {"kind": "verify_signature"}, DEPLOY)
    trust_key(actor=SYSTEM, team=scene.team, name="build", pem=new_key().public_key.pem, reason="ours")
    with pytest.raises(NotReleasable, match="trusts no key named prod; it trusts build"):
        follow(scene, {"kind": "verify_signature", "key": "prod"}, DEPLOY)
    follow(scene, {"kind": "verify_signature", "key": "build"}, DEPLOY)
    scene.run_until_state(S.FAILED)
    assert "is not signed by a trusted key" in scene.release.outcome


@pytest.fixture
def gate(scene: Scene, settings) -> Iterator[tuple[Receiver, IssuedWebhook]]:
    settings.SLIPWAY_WEBHOOK_ALLOWED_HOSTS = ("127.0.0.1",)
    with receiving() as receiver:
        yield (
            receiver,
            create_webhook(actor=SYSTEM, url=receiver.url, team=scene.team, events=["release.notified"]),
        )


def says(**answer: str) -> Reply:
    return Reply(body=json.dumps(answer).encode())


def test_a_release_waits_until_the_webhook_says_yes(scene: Scene, gate) -> None:
    receiver, issued = gate
    replies = [
        Reply(status=503),
        says(result="wait", reason="Still reading."),
        says(result="continue", reason="OK"),
    ]
    receiver.answer = lambda _got: replies[min(len(receiver.received), 3) - 1]
    step = {"kind": "webhook", "webhook": issued.endpoint.pk, "every_seconds": 2}
    release = follow(scene, DEPLOY, WEIGHT, step)
    scene.run_until_state(S.PROMOTED)
    assert len(receiver.received) == 3
    assert all(one.is_signed_with(issued.secret) for one in receiver.received)
    assert len({one.headers["webhook-id"] for one in receiver.received}) == 1
    told = orjson.loads(receiver.received[0].body)
    assert (told["type"], told["data"]["version"]) == ("release.gate", str(scene.v2))
    assert release.steps.get(kind="webhook").detail["note"].endswith("said yes. OK")


def test_a_webhook_that_says_no_sends_all_traffic_back(scene: Scene, gate) -> None:
    receiver, issued = gate
    receiver.reply = says(result="fail", reason="It swears.")
    follow(scene, DEPLOY, WEIGHT, {"kind": "webhook", "webhook": issued.endpoint.pk})
    scene.run_until_state(S.ROLLED_BACK)
    assert scene.release.outcome == "127.0.0.1 said no. It swears."
    assert set(scene.split(50)) == {scene.stable}


def test_a_candidate_that_turns_bad_while_a_webhook_thinks_is_rolled_back(scene: Scene, gate) -> None:
    receiver, issued = gate
    receiver.reply = Reply(status=202)
    follow(scene, DEPLOY, WEIGHT, {"kind": "webhook", "webhook": issued.endpoint.pk})
    scene.run_until(lambda: bool(receiver.received))
    scene.misbehave(error_share=0.6)
    scene.run_until_state(S.ROLLED_BACK)


def test_nobody_answers_in_time(scene: Scene, gate) -> None:
    receiver, issued = gate
    receiver.reply = Reply(status=500)
    step = {"kind": "webhook", "webhook": issued.endpoint.pk, "timeout_seconds": 6, "every_seconds": 2}
    follow(scene, DEPLOY, step)
    scene.run_until_state(S.FAILED)
    assert scene.release.outcome.startswith("No decision of 127.0.0.1 within 6 s.")
    follow(scene, DEPLOY, {**step, "on_timeout": "continue"})
    scene.run_until_state(S.PROMOTED)


def test_a_webhook_of_another_team_is_refused_before_the_start(scene: Scene) -> None:
    with pytest.raises(NotReleasable, match="no enabled webhook 99"):
        follow(scene, DEPLOY, {"kind": "webhook", "webhook": 99})


def test_a_webhooks_answer_is_read_as_flagger_reads_it() -> None:
    def read(status: int | None, body: str = "") -> str:
        return answer_of(DeliveryResponse(status, 1, body)).result

    assert [read(200), read(202), read(403), read(429), read(500), read(None)] == [
        "continue", "wait", "fail", "wait", "wait", "wait"
    ]  # fmt: skip
    assert [read(200, '{"result": "maybe"}'), read(200, "[1]"), read(200, '{"result": "fail"}')] == [
        "wait", "continue", "fail"
    ]  # fmt: skip
