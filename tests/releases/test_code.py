"""A version that carries code is released and deployed by an exemption of its team, or not at all."""

from datetime import timedelta

import pytest
from django.utils import timezone

from clusters.models import Deployment
from models_registry.models import CodeExemption, Version
from releases.models import ReleaseStep
from releases.services.plan import save_plan
from releases.states import ReleaseState
from tests.cast import SYSTEM
from tests.releases.world import SWIFT, Scene

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]


@pytest.fixture
def version(scene: Scene) -> Version:
    return Version.objects.create(
        model=scene.v1.model, number=9, name="v9", state="ready", digest="9" * 64, file_count=4,
        ready_at=timezone.now(), scan={"code": [{"path": "modeling_x.py", "reason": "Python."}]},
    )  # fmt: skip


@pytest.mark.parametrize("steps", [SWIFT["steps"], SWIFT["steps"][1:]], ids=["with a scan", "without a scan"])
def test_a_release_of_code_fails_with_the_reason_before_any_worker_runs(
    scene: Scene, version: Version, steps
) -> None:
    save_plan(actor=SYSTEM, team=scene.team, name="other", body={"steps": steps})
    release = scene.start(version, plan_name="other")
    scene.run_until_state(ReleaseState.FAILED, ReleaseState.ROLLED_BACK)
    assert scene.state() == ReleaseState.FAILED
    assert "story:v9 carries code that loaders may run: modeling_x.py." in release.outcome
    assert not Deployment.objects.filter(version=version).exists()


def test_an_exempted_version_is_released_and_the_scan_says_by_whom(scene: Scene, version: Version) -> None:
    until = scene.clock() + timedelta(days=30)
    CodeExemption.objects.create(team=scene.team, reason="read", given_by="cleo", until=until)
    release = scene.start(version)
    scene.run_until_state(ReleaseState.WAITING_APPROVAL)
    note = ReleaseStep.objects.get(release=release, index=0).detail["note"]
    assert note.startswith("4 files, 1 of them with code, exempted by cleo until ")


def test_workers_that_run_stay_when_the_exemption_is_over(scene: Scene, version: Version) -> None:
    now = scene.clock()
    CodeExemption.objects.create(
        team=scene.team, reason="read", given_by="cleo", given_at=now, until=now + timedelta(minutes=5)
    )
    scene.start(version)
    scene.run_until_state(ReleaseState.WAITING_APPROVAL)
    scene.clock.pass_(timedelta(minutes=6))
    scene.approve()
    scene.run_until_state(ReleaseState.PROMOTED)
    assert scene.running(scene.candidate) == 2
