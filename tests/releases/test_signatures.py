"""Where a team requires signatures, an unsigned version is neither released nor deployed."""

import pytest

from clusters.models import Deployment
from releases.models import ReleaseStep
from releases.services.plan import save_plan
from releases.states import ReleaseState
from tests.cast import SYSTEM
from tests.releases.world import SWIFT, Scene
from trust.services import demand_signatures

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]


@pytest.mark.parametrize("steps", [SWIFT["steps"], SWIFT["steps"][1:]], ids=["with a scan", "without a scan"])
def test_a_release_of_an_unsigned_version_fails_before_any_worker_runs(scene: Scene, steps) -> None:
    demand_signatures(actor=SYSTEM, team=scene.team, demand="require", reason="policy")
    save_plan(actor=SYSTEM, team=scene.team, name="other", body={"steps": steps})
    release = scene.start(scene.v2, plan_name="other")
    scene.run_until_state(ReleaseState.FAILED, ReleaseState.ROLLED_BACK)
    assert scene.state() == ReleaseState.FAILED
    release.refresh_from_db()
    assert "serves only versions that a key it trusts has signed" in release.outcome
    assert not Deployment.objects.filter(version=scene.v2).exists()


def test_a_warning_is_noted_and_the_release_goes_on(scene: Scene) -> None:
    demand_signatures(actor=SYSTEM, team=scene.team, demand="warn", reason="policy")
    release = scene.start(scene.v2)
    scene.run_until_state(ReleaseState.WAITING_APPROVAL)
    note = ReleaseStep.objects.get(release=release, index=0).detail["note"]
    assert note.endswith("Warning: It is not signed.")
