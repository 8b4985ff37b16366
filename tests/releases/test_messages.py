"""What the rows of a release say: kept as kinds and values, told in the reader's language."""

import json
import re
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import pytest
from django.conf import settings
from django.utils import translation
from django.utils.functional import Promise

import releases
from releases.judge.rules import IndicatorRules, JudgeRules
from releases.judge.verdict import verdict
from releases.messages import KINDS, SAID, MessageTemplate, ReleaseMessage
from releases.models import Release
from releases.reconcilers.measured_split import NO_REQUESTS, NOT_SPLIT
from releases.reconcilers.starting import STARTED
from releases.states import ReleaseState
from releases.steps.approval import NOBODY_DECIDED
from releases.steps.judge import TOO_LITTLE
from releases.steps.scan import NOT_READY
from tests.releases.conftest import Trial
from tests.releases.world import Scene

OTHERS = [code for code, _ in settings.LANGUAGES if not code.startswith("en")]
ABSOLUTE = JudgeRules(
    slow=IndicatorRules(roll_back_above_ratio=1.5, promote_below_ratio=None, promote_below_percent=3.0)
)
TRIALS = {
    "nothing yet": Trial(JudgeRules()),
    "a first request": Trial(JudgeRules()).see(errors=(1, 0, 0, 0)),
    "no stable": Trial(JudgeRules()).see(errors=(30, 0, 0, 0)),
    "on its way": Trial(JudgeRules()).see(errors=(20, 0, 80, 0), slow=(20, 1, 80, 4), seconds=10.0, times=5),
    "nothing slow": Trial(JudgeRules()).see(errors=(20, 0, 80, 0), slow=(20, 0, 80, 0), times=100),
    "passed": Trial(JudgeRules()).see(errors=(20, 0, 80, 0), slow=(20, 1, 80, 4), times=60),
    "passed by a limit": Trial(ABSOLUTE).see(errors=(20, 0, 80, 0), slow=(20, 0, 80, 0), times=100),
    "errors": Trial(JudgeRules()).see(errors=(402, 31, 3600, 4)),
    "late errors": Trial(JudgeRules())
    .see(errors=(100, 0, 100, 0), times=40)
    .see(errors=(100, 8, 100, 0), times=2),
    "slow": Trial(JudgeRules()).see(errors=(50, 0, 200, 0), slow=(50, 20, 200, 10), times=4),
    "mostly errors": Trial(JudgeRules()).see(errors=(200, 150, 200, 0)),
    "a certain failure": Trial(JudgeRules()).see(errors=(5000, 5000, 5000, 0)),
}


def kept(message: ReleaseMessage) -> ReleaseMessage:
    """Return the message as it comes back from its row."""
    return ReleaseMessage.kept(message.text, json.loads(json.dumps(message.document, allow_nan=False)))


@pytest.mark.parametrize("name", TRIALS)
def test_a_kept_reason_of_the_judge_reads_as_the_judge_would_tell_it_now(name):
    trial = TRIALS[name]
    found = verdict(trial.evidence, trial.rules)
    for language in OTHERS:
        with translation.override(language):
            assert str(kept(found.message)) == found.reason != found.message.text
    assert str(kept(found.message)) == found.message.text == found.reason


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (STARTED(), "已开始。"),
        (NOBODY_DECIDED(duration=93_600), "1 天 2 小时内无人作出决定。"),
        (NOT_READY(version="m:v2", state="importing"), "m:v2 导入中，尚未就绪。"),
        (NOT_SPLIT(percent=5, why=NO_REQUESTS()), "网关没有按要求分流（5 %）：没有请求，无法测量分流。"),
        (
            TOO_LITTLE(seconds=60, why=verdict(Trial(JudgeRules()).evidence, JudgeRules()).message),
            "60 秒后证据仍不足：无定论：候选版本尚未响应任何请求。",
        ),
        (ReleaseMessage(words="Rolled back by hand, it was slow."), "Rolled back by hand, it was slow."),
        (STARTED() + ReleaseMessage(words="By hand."), "已开始。By hand."),
        (ReleaseMessage(), ""),
    ],
)
def test_a_kept_message_is_told_in_the_reader_s_language(message, told):
    with translation.override("zh-hans"):
        assert str(kept(message)) == told
    assert str(kept(message)) == message.text


@pytest.mark.parametrize(
    "document",
    [
        [{"kind": "of another time", "values": {}}],
        [{"kind": "approval.timeout", "values": {"seconds": 5}}],
        [{"kind": "approval.timeout"}],
        ["Started."],
    ],
)
def test_what_this_slipway_cannot_tell_stays_the_text_that_was_kept(document):
    with translation.override("zh-hans"):
        assert str(ReleaseMessage.kept("It was so.", document)) == "It was so."


def test_a_message_takes_the_values_of_its_kind_and_no_others():
    with pytest.raises(TypeError, match="duration"):
        NOBODY_DECIDED(seconds=5)


def test_two_kinds_do_not_share_a_name():
    with pytest.raises(ValueError, match=r"approval\.timeout"):
        MessageTemplate("approval.timeout", "Too late.")


def sources_of(kind: MessageTemplate) -> tuple[str, ...]:
    """Its English sentence, or singular and plural."""
    assert isinstance(kind.sentence, Promise), f"{kind.name} is not marked for translation"
    lazy = vars(kind.sentence)
    return (*lazy["_args"], *lazy["_kw"].values())


def test_every_kind_has_its_values_and_a_sentence_in_each_language():
    for module in walk_packages(releases.__path__, "releases."):
        import_module(module.name)
    known = [kind for kind in KINDS.values() if kind is not SAID]
    assert len(known) > 40
    for kind in known:
        sources = sources_of(kind)
        for language in OTHERS:
            with translation.override(language):
                told = (
                    translation.gettext(*sources) if len(sources) == 1 else translation.ngettext(*sources, 2)
                )
            assert told not in sources, f"{kind.name} has no translation"
            for sentence in (*sources, told):
                assert set(re.findall(r"%\((\w+)\)s", sentence)) == kind.formats.keys(), kind.name


@pytest.mark.django_db
def test_all_that_a_release_says_of_itself_is_kept_as_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch)
    promoted = scene.start()
    scene.run_until_state(ReleaseState.WAITING_APPROVAL)
    scene.approve()
    scene.run_until_state(ReleaseState.PROMOTED)
    failed = scene.start(scene.v1)
    scene.prober.fault = "answered 500: boom"
    scene.run_until_state(ReleaseState.FAILED)

    requested = {"better"}
    for one in Release.objects.filter(pk__in=(promoted.pk, failed.pk)):
        said: list[tuple[str, Any]] = [(one.outcome, one.outcome_message)]
        said += [(step.detail.get("note", ""), step.message) for step in one.steps.all()]
        said += one.moves.values_list("note", "message")
        for text, document in said:
            assert document or text in {"", *requested}, text
            if document:
                assert str(ReleaseMessage.kept("", document)) == text
    failure = Release.objects.get(pk=failed.pk)
    with translation.override("zh-hans"):
        assert str(failure.told_outcome) == "冒烟测试在第 1 个请求（共 3 个）失败：answered 500: boom。"
        (weight,) = promoted.steps.filter(kind="weight")
        assert str(weight.told).startswith("网关将 30 % 的流量发往 story:v2。")
