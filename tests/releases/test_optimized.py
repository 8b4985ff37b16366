"""A plan can demand that an optimised version passed before its workers start."""

import pytest
from django.utils import timezone

from clusters.models import Deployment
from models_registry.models import Version
from optimization.models import OptimizationRun
from releases.errors import InvalidPlan
from releases.models import ReleaseStep
from releases.plans.plan import parse_plan
from releases.services.plan import save_plan
from releases.states import ReleaseState
from tests.cast import SYSTEM
from tests.releases.world import SWIFT, Scene

pytestmark = pytest.mark.django_db


@pytest.fixture
def child(scene: Scene) -> Version:
    child = Version.objects.create(
        model=scene.v1.model, number=9, name="v9", state="ready", digest="9" * 64, file_count=4,
        ready_at=timezone.now(), parent=scene.v1,
    )  # fmt: skip
    OptimizationRun.objects.create(
        team=scene.team, name="int8", parent=scene.v1, child=child, test_version=scene.v1, margin=1.0,
        recipe="local/int8-dynamic", created_by="ada", state="rejected",
    )  # fmt: skip
    save_plan(
        actor=SYSTEM, team=scene.team, name="other", body={"steps": [{"kind": "optimized"}, *SWIFT["steps"]]}
    )
    return child


def test_a_version_that_was_rejected_is_refused_before_any_worker_runs(scene: Scene, child: Version) -> None:
    release = scene.start(child, plan_name="other")
    scene.run_until_state(ReleaseState.FAILED, ReleaseState.ROLLED_BACK)
    assert scene.state() == ReleaseState.FAILED
    assert "story:v9 is an optimised version that has not passed: int8 is rejected." in release.outcome
    assert not Deployment.objects.filter(version=child).exists()


@pytest.mark.parametrize(
    ("state", "said"), [("passed", "Optimised version int8 passed."), (None, "No recipe made this version.")]
)
def test_versions_that_passed_and_those_that_no_recipe_made_go_on(
    scene: Scene, child: Version, state: str | None, said: str
) -> None:
    runs = OptimizationRun.objects.all()
    runs.update(state=state) if state else runs.delete()
    release = scene.start(child, plan_name="other")
    scene.run_until_state(ReleaseState.WAITING_APPROVAL)
    assert ReleaseStep.objects.get(release=release, index=0).detail["note"] == said


def test_the_step_stands_before_the_deploy_step() -> None:
    with pytest.raises(InvalidPlan, match="already running"):
        parse_plan(
            {
                "name": "late",
                "steps": [SWIFT["steps"][0], SWIFT["steps"][1], {"kind": "optimized"}, *SWIFT["steps"][2:]],
            }
        )
