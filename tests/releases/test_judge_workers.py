"""A release is judged by what its workers count: indicators that the service declares, latency by route."""

import math
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path

import httpx2
import pytest

from gateway.backends.worker_counters import WorkerCounters
from gateway.latency import BOUNDS_MS
from gateway.routes import WorkerEndpoint
from gateway.worker_figures import WorkerFigures
from models_registry.facts.code import declared_by
from releases.errors import NotReleasable
from releases.judge.evidence import BadRequestCount, EvidenceIncrement, JudgeEvidence, SideCounts
from releases.judge.rules import JudgeRules
from releases.judge.verdict import JudgeDecision, verdict
from releases.judge.worker_counts import latency_thresholds, sides_between, worker_tallies
from releases.services.plan import save_plan
from releases.states import ReleaseState
from tests.cast import SYSTEM
from tests.releases.world import SWIFT, Scene
from tests.serving.runtime.rig import service

APP = """
from slipway import serve

app = serve.App(processes=1)
refused = app.indicator("refused", "Pictures refused")
kept = app.indicator("kept", lower_is_better=False)

@app.post("/detect")
def detect(request):
    if request.json()["n"] % {every} == 0:
        refused.observe()
    else:
        kept.observe()
    return {{}}
"""


def figures(*, epoch: str = "a", requests: int = 0, fast: int = 0, slow: int = 0) -> WorkerFigures:
    held = {10.0: fast, 1000.0: slow}
    bounds = (*BOUNDS_MS, math.inf)
    histogram = tuple(zip(bounds, accumulate(held.get(bound, 0) for bound in bounds), strict=True))
    return WorkerFigures(epoch=epoch, requests=requests, timings={"ttft": histogram, "/detect": histogram})


@pytest.mark.process
def test_an_indicator_of_real_workers_rolls_the_candidate_back(tmp_path: Path) -> None:
    rules = JudgeRules.model_validate({"indicators": {"refused": {}, "kept": {}}})
    assert rules.log_reject_limit == pytest.approx(math.log(100 * 4 / 5)), "one correction over all four"
    with (
        service(tmp_path / "stable", APP.format(every=50)) as stable,
        service(tmp_path / "candidate", APP.format(every=2)) as candidate,
    ):
        places = {
            "old": [WorkerEndpoint("127.0.0.1", stable.port)],
            "new": [WorkerEndpoint("127.0.0.1", candidate.port)],
        }
        counters = WorkerCounters(lambda _: places)

        def told() -> Mapping[str, object]:
            return {name: worker_tallies(one, rules, {}) for name, one in counters.figures("x").items()}

        before = told()
        for worker in (stable, candidate):
            with httpx2.Client(base_url=worker.url) as client:
                for n in range(1, 101):
                    assert client.post("/detect", json={"n": n}).status_code == 200
                client.post("/detect", json={"n": 0}, headers={"x-slipway-chosen-by": "client"})
        sides = sides_between(before, told(), candidate="new", stable="old")
    assert sides == {
        "indicator:refused": SideCounts(BadRequestCount(100, 50), BadRequestCount(100, 2)),
        "indicator:kept": SideCounts(BadRequestCount(100, 50), BadRequestCount(100, 2)),
    }
    clean = SideCounts(BadRequestCount(100), BadRequestCount(100))
    evidence = JudgeEvidence.start(rules).after(EvidenceIncrement(5.0, {"errors": clean, **sides}), rules)
    answer = verdict(evidence, rules)
    assert (answer.decision, answer.culprit) == (JudgeDecision.ROLL_BACK, "indicator:refused")
    assert "refused: 50 / 100 (50.0 %); stable 2 / 100" in answer.reason


def test_a_route_is_slow_by_what_stable_has_shown_before() -> None:
    rules = JudgeRules.model_validate({"latencies": {"/detect": {}, "ttft": {"above_ms": 300}}})
    thresholds = latency_thresholds({}, figures(fast=95, slow=5), rules)
    assert thresholds == {"/detect": 10.0, "ttft": 320.0}
    assert latency_thresholds({}, figures(fast=20), rules) == {"ttft": 320.0}
    before, after = (
        {
            "new": worker_tallies(figures(fast=10, slow=slow), rules, thresholds),
            "old": worker_tallies(figures(fast=fast, epoch=epoch), rules, thresholds),
        }
        for slow, fast, epoch in ((0, 95, "a"), (7, 195, "a"))
    )
    expected = SideCounts(BadRequestCount(7, 7), BadRequestCount(100))
    seen = sides_between(before, after, candidate="new", stable="old")
    assert seen == {"latency:/detect": expected, "latency:ttft": expected}
    after["old"]["epoch"] = "another start"
    assert sides_between(before, after, candidate="new", stable="old") == {}


def test_what_one_version_does_not_declare_is_not_compared_and_never_passes() -> None:
    rules = JudgeRules.model_validate({"indicators": {"refused": {}}, "slow": None})
    evidence = JudgeEvidence.start(rules)
    for _ in range(20):
        evidence = evidence.after(
            EvidenceIncrement(5.0, {"errors": SideCounts(BadRequestCount(100), BadRequestCount(100))}), rules
        )
    answer = verdict(evidence, rules)
    assert answer.decision is JudgeDecision.INSUFFICIENT
    assert "no counts of refused for both" in answer.reason


@pytest.mark.django_db
def test_a_candidate_that_is_slow_to_its_first_token_is_rolled_back(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(_service: str) -> dict[str, WorkerFigures]:
        counts = scene.gateway.counts(scene.name)
        return {
            name: figures(requests=one.requests, slow=one.requests)
            if name == scene.candidate
            else figures(requests=one.requests, fast=one.requests)
            for name, one in counts.items()
        }

    monkeypatch.setattr("gateway.selectors.worker_figures", told)
    body = {**SWIFT, "judge": {"latencies": {"ttft": {"above_ms": 100}}}}
    save_plan(actor=SYSTEM, team=scene.team, name="timed", body=body)
    scene.start(plan_name="timed")
    scene.run_until_state(ReleaseState.ROLLED_BACK)
    assert scene.release.outcome.startswith("Candidate slow TTFT: ")


@pytest.mark.django_db
def test_a_plan_that_judges_what_a_version_does_not_declare_is_refused_at_start(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, judge in (
        ("by-indicator", {"indicators": {"refused": {}}}),
        ("by-route", {"latencies": {"/detect": {}}}),
    ):
        save_plan(actor=SYSTEM, team=scene.team, name=name, body={**SWIFT, "judge": judge})
    with pytest.raises(NotReleasable, match="only services of your own code declare indicators"):
        scene.start(plan_name="by-indicator")
    scene.service.engine = "app"
    scene.service.save()
    code = {
        scene.v1: {"app.py": APP},
        scene.v2: {"app.py": "app.indicator('lost')\n@app.post('/x')\ndef x(): ..."},
    }
    monkeypatch.setattr("releases.declared.declared_by_app", lambda one: declared_by(code[one]))
    with pytest.raises(NotReleasable, match=r"refused, which story:v2 does not declare \(it declares: lost"):
        scene.start(plan_name="by-indicator")
    with pytest.raises(NotReleasable, match="/detect, a route that story:v2 does not have"):
        scene.start(plan_name="by-route")
    code[scene.v2] = {"app.py": "for name in names: app.indicator(name)\n@app.post('/detect')\ndef x(): ..."}
    scene.start(plan_name="by-indicator")
