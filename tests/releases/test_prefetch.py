"""A plan brings the model files before it takes GPUs: told as they come, given up in words, cancelled."""

import pytest

from clusters.backends.base import CannotRun, FilesFetch, FilesPending, ModelVersion
from clusters.models import Deployment
from releases.errors import InvalidPlan
from releases.models import ReleaseStep
from releases.plans.plan import parse_plan
from releases.services.plan import save_plan
from releases.services.release import abort
from releases.states import ReleaseState as S
from tests.releases.browsing import as_person, page_of, text_of
from tests.releases.world import SWIFT, Scene

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.any_database]

PREFETCH = {"kind": "prefetch", "machines": 2, "within_seconds": 60}
STEPS = [SWIFT["steps"][0], PREFETCH, *SWIFT["steps"][1:]]


class Files:
    """Come when a test says so; until then there are `come` of ten bytes on each of two machines."""

    def __init__(self, scene: Scene) -> None:
        self.come = 4
        self.error: Exception | None = None
        self.asked = 0
        scene.world.bring_files = self.bring

    def bring(self, _version: ModelVersion) -> None:
        self.asked += 1
        if self.error:
            raise self.error
        if self.come < 10:
            places = ("gpu-1", "gpu-2")
            raise FilesPending(
                "They come.",
                tuple(
                    FilesFetch(place=place, come_bytes=self.come, size_bytes=10, bytes_per_second=2)
                    for place in places
                ),
            )


@pytest.fixture
def files(scene: Scene) -> Files:
    save_plan(actor=scene.requester, team=scene.team, name="early", body={"steps": STEPS})
    return Files(scene)


def test_no_worker_starts_before_the_files_are_there(scene: Scene, files: Files) -> None:
    scene.start(plan_name="early")
    scene.run_for(8)
    assert scene.running(scene.candidate) == 0
    row = Deployment.objects.get(name=scene.candidate)
    assert (row.replicas, row.prefetch_machines, row.state) == (0, 2, "starting")
    files.come = 10
    scene.run_until_state(S.WAITING_APPROVAL)
    assert scene.running(scene.candidate) == 2
    step = ReleaseStep.objects.get(release=scene.release, kind="prefetch")
    assert step.detail["note"].startswith("The model files are there after")


def test_the_page_tells_bytes_and_rate_on_each_machine_and_the_strip_all_of_it(
    scene: Scene, files: Files
) -> None:
    scene.start(plan_name="early")
    scene.run_for(6)
    body = text_of(as_person("ada", scene), page_of(scene))
    for words in ("Model files on gpu-1", "Model files on gpu-2", "4\u00a0B of 10\u00a0B", "40%, 4\u00a0B/s"):
        assert words in body
    told = as_person("ada", scene).get(f"/api/v1/releases/{scene.release.pk}/").json()
    assert [one["place"] for one in told["fetches"]] == ["gpu-1", "gpu-2"]


def test_files_that_cannot_come_end_the_release_with_the_reason(scene: Scene, files: Files) -> None:
    files.error = CannotRun("The disk of gpu-1 is full.")
    scene.start(plan_name="early")
    scene.run_until_state(S.FAILED)
    assert scene.release.outcome == "The model files cannot be brought: The disk of gpu-1 is full."
    assert Deployment.objects.get(name=scene.candidate).state == "removed"


def test_files_that_take_too_long_end_it_too(scene: Scene, files: Files) -> None:
    scene.start(plan_name="early")
    scene.run_until_state(S.FAILED, seconds=120)
    assert scene.release.outcome == "The model files were not there within 60 s: They come."


def test_an_abort_stops_the_fetch(scene: Scene, files: Files) -> None:
    scene.start(plan_name="early")
    scene.run_for(6)
    abort(scene.release, actor=scene.requester, reason="no")
    scene.run_until_state(S.ABORTED)
    asked = files.asked
    scene.run_for(6)
    assert files.asked == asked
    assert Deployment.objects.get(name=scene.candidate).state == "removed"


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (
            [{"kind": "deploy", "replicas": 1}, PREFETCH, {"kind": "promote"}],
            "the workers are already running",
        ),
        ([PREFETCH, PREFETCH, *SWIFT["steps"][1:]], "one prefetch is enough"),
        ([PREFETCH | {"machines": 0}, *SWIFT["steps"][1:]], "machines: "),
    ],
)
def test_where_it_makes_no_sense_a_plan_is_refused(steps: list[dict[str, object]], words: str) -> None:
    with pytest.raises(InvalidPlan, match=words):
        parse_plan({"name": "x", "steps": steps})
