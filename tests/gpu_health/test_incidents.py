"""An incident climbs the ladder of its finding, and stops where it must."""

from datetime import timedelta

import pytest

from gpu_health.models import HealingPolicy, Incident
from tests.gpu_health.healing import DONE, FAILED, Ward

pytestmark = pytest.mark.django_db


def test_a_gpu_is_reset_on_a_machine_out_of_service_and_verified_before_it_returns() -> None:
    ward = Ward()
    finding = ward.finding()

    incident = ward.run("closed")

    assert ward.states() == [
        *("proposed", "quarantining", "quarantined", "draining", "collecting", "acting"),
        *("verifying", "returning", "watching", "closed"),
    ]
    assert len(ward.programs.repaired) == 1
    assert "--gpu-reset" in ward.programs.repaired[0]
    assert ward.programs.ran.index("evidence") < ward.programs.ran.index(ward.programs.repaired[0])
    assert not ward.operations.cordoned
    assert not ward.operations.taints
    finding.refresh_from_db()
    assert (finding.state, finding.closed_by) == ("closed", "gpu-health")
    assert incident.check_result is not None
    assert incident.check_result["passed"]


def test_in_a_dry_run_nothing_is_done_and_the_incident_says_so() -> None:
    ward = Ward(mode="dry_run")
    ward.finding()

    ward.run(lambda: ward.incident.hold != "")

    assert ward.incident.hold == "dry_run"
    assert "switched off" in ward.incident.hold_reason
    assert not ward.operations.cordoned
    assert not ward.programs.ran


def test_a_machine_that_fails_its_check_climbs_on_and_never_returns_by_itself() -> None:
    ward = Ward()
    ward.programs.checks = [FAILED]
    ward.finding()

    ward.run("needs_person")

    assert ward.operations.cordoned
    assert ward.operations.taints
    assert "computes wrong values" in "".join(ward.incident.timeline.values_list("words", flat=True))


def reset_that_runs(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of its job, which ends when it is told to."""
    runner = ward.operations.job_runner
    ward.programs.repairs = [None]
    monkeypatch.setattr(runner, "die", lambda _name: None)
    ward.finding()
    ward.run(lambda: bool(ward.programs.repaired))
    return next(name for name, job in runner.jobs.items() if job.is_live)


@pytest.mark.parametrize("stop", [{"kill_switch_by": "olga"}, {}], ids=["kill switch", "cancelled"])
def test_paused_operands_stay_away_while_the_gpu_is_reset_and_come_back_whatever_happens(
    stop: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ward = Ward()
    job = reset_that_runs(ward, monkeypatch)
    if stop:
        HealingPolicy.objects.update(kill_switch_at=ward.clock.at, **stop)
    else:
        Incident.objects.update(cancel="leave")
    for _ in range(5):
        ward.kernel.sweep()
        ward.clock.pass_(timedelta(seconds=10))
    assert ward.operations.has_operands_paused

    ward.operations.job_runner.finish(job, DONE)
    ward.run(lambda: not ward.incident.has_operands_paused)

    assert not ward.operations.has_operands_paused
    assert ward.incident.state == ("acting" if stop else "cancelled")
    assert len(ward.programs.repaired) == 1
