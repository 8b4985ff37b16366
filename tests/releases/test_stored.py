"""Sentences of a release's rows, told again in the reader's language."""

import pytest
from django.utils import translation

from releases import stored
from releases.judge import IndicatorRules, JudgeRules, verdict
from releases.stored import retold
from tests.releases.conftest import Trial

EQUAL = Trial(JudgeRules()).see(errors=(20, 0, 80, 0), slow=(20, 1, 80, 4), times=60)
LATE = Trial(JudgeRules()).see(errors=(100, 0, 100, 0), times=40).see(errors=(100, 8, 100, 0), times=2)
ABSOLUTE = JudgeRules(
    slow=IndicatorRules(roll_back_above_ratio=1.5, promote_below_ratio=None, promote_below_percent=3.0)
)
TRIALS = {
    "nothing yet": Trial(JudgeRules()),
    "a first request": Trial(JudgeRules()).see(errors=(1, 0, 0, 0)),
    "no stable": Trial(JudgeRules()).see(errors=(30, 0, 0, 0)),
    "on its way": Trial(JudgeRules()).see(errors=(20, 0, 80, 0), slow=(20, 1, 80, 4), seconds=10.0, times=5),
    "nothing slow": Trial(JudgeRules()).see(errors=(20, 0, 80, 0), slow=(20, 0, 80, 0), times=100),
    "passed": EQUAL,
    "passed by a limit": Trial(ABSOLUTE).see(errors=(20, 0, 80, 0), slow=(20, 0, 80, 0), times=100),
    "errors": Trial(JudgeRules()).see(errors=(402, 31, 3600, 4)),
    "late errors": LATE,
    "slow": Trial(JudgeRules()).see(errors=(50, 0, 200, 0), slow=(50, 20, 200, 10), times=4),
    "mostly errors": Trial(JudgeRules()).see(errors=(200, 150, 200, 0)),
}


@pytest.mark.parametrize("name", TRIALS)
def test_a_stored_reason_of_the_judge_reads_as_the_judge_would_tell_it_now(name):
    trial = TRIALS[name]
    found = verdict(trial.evidence, trial.rules)
    written = found.reason
    with translation.override("zh-hans"):
        assert retold(written) == found.reason
        assert found.reason != written
    assert retold(written) == written


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (stored.STARTED, "已开始。"),
        (stored.NOBODY_DECIDED % {"duration": "1 day 2 h"}, "1 天 2 小时内无人作出决定。"),
        (stored.NOT_READY % {"version": "m:v2", "state": "importing"}, "m:v2 导入中，尚未就绪。"),
        (
            stored.NOT_SPLIT % {"percent": 5, "why": stored.NO_REQUESTS},
            "网关没有按要求分流（5 %）：没有请求，无法测量分流。",
        ),
        (
            stored.TOO_LITTLE
            % {"seconds": 60, "why": "Inconclusive: the candidate has answered no request yet."},
            "60 秒后证据仍不足：无定论：候选版本尚未响应任何请求。",
        ),
        ("Rolled back by hand, it was slow.", "Rolled back by hand, it was slow."),
        ("", ""),
    ],
)
def test_what_a_release_writes_is_told_again_and_what_people_write_stays(written, told):
    with translation.override("zh-hans"):
        assert retold(written) == told
    assert retold(written) == written
