"""The cast of the judge's tests, and of those with a release."""

import pytest

from releases.judge.evidence import BadRequestCount, EvidenceIncrement, JudgeEvidence, SideCounts
from releases.judge.rules import JudgeRules
from tests.releases.browsing import until_it_waits
from tests.releases.world import Scene


@pytest.fixture
def rules() -> JudgeRules:
    return JudgeRules()


class Trial:
    """A release under judgement, told in requests and bad ones."""

    def __init__(self, rules: JudgeRules, slow_threshold_ms: float | None = 450.0) -> None:
        self.rules = rules
        self.evidence = JudgeEvidence.start(rules)
        if slow_threshold_ms is not None:
            self.evidence = self.evidence.with_slow_threshold(slow_threshold_ms)

    def see(
        self,
        *,
        errors: tuple[int, int, int, int] | None = None,
        slow: tuple[int, int, int, int] | None = None,
        seconds: float = 5.0,
        times: int = 1,
    ) -> "Trial":
        """`times` increments of (candidate requests, bad, stable requests, bad)."""
        told = {
            name: SideCounts(BadRequestCount(*four[:2]), BadRequestCount(*four[2:]))
            for name, four in (("errors", errors), ("slow", slow))
            if four is not None
        }
        for _ in range(times):
            self.evidence = self.evidence.after(EvidenceIncrement(seconds, told), self.rules)
        return self


@pytest.fixture
def trial(rules: JudgeRules) -> Trial:
    return Trial(rules)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A release that waits for its approval."""
    return Scene(monkeypatch, then=until_it_waits)
