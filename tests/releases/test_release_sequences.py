"""Whatever happens to a release, in whatever order: nobody's approval is bypassed, and it ends."""

import copy
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accounts.models import Membership
from accounts.states import Role
from common import audit
from common.errors import SlipwayError
from freezes.models import Freeze
from freezes.services import remove_freeze, stop_releases
from releases.models import Release, Service
from releases.services.approval import approve, reject
from releases.services.plan import save_plan
from releases.services.policy import set_team_policy
from releases.services.release import abort, pause, resume
from releases.states import ReleaseState
from tests.cast import SYSTEM
from tests.crash.harness import LEASE_AND_A_BIT, Checkpoints, Crash, die
from tests.releases.world import Scene, undone

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(600), pytest.mark.any_database]

S = ReleaseState
OVER = {S.PROMOTED, S.ROLLED_BACK, S.REJECTED, S.ABORTED, S.FAILED}
PERCENT = 30
PLAN = {
    "steps": [
        {"kind": "deploy", "share_percent": 100, "ready_within_seconds": 900},
        {"kind": "weight", "percent": PERCENT},
        {"kind": "hold", "seconds": 1},
        {"kind": "approval", "timeout_seconds": 3_600},
        {"kind": "promote"},
    ]
}
MANY = int(os.environ.get("SLIPWAY_TEST_SEQUENCES", "1000"))
WITHOUT_APPROVAL = {"steps": [step for step in PLAN["steps"] if step["kind"] != "approval"]}


class ReleaseStory:
    """A release that `ada` wants and `bo` may approve; what may happen to it, and what must hold."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        set_team_policy(actor=SYSTEM, team=scene.team, policy={"approval": "another_person"})
        save_plan(actor=SYSTEM, team=scene.team, name="brief", body=PLAN)
        self.release = scene.start(plan_name="brief")
        self.is_approved = False
        """Somebody who may has said yes."""
        self.kernel = scene.worker()
        self.held_at: int | None = None
        """Step at which a stop found it."""

    # What happens

    def works(self, ticks: int) -> None:
        for _ in range(ticks):
            self.scene.tick(self.kernel)
            self.check()

    def worker_dies(self, point: int) -> None:
        """At this point of its work; another one goes on when its lease has run out."""
        with suppress(Crash):
            self.scene.tick(self.scene.worker(Checkpoints(at=point, then=die)))
        self.scene.clock.pass_(LEASE_AND_A_BIT)

    def worker_sleeps(self, point: int) -> None:
        """Past its lease, while another one does the same work, and then goes on with what it had read."""

        def others() -> None:
            self.scene.clock.pass_(LEASE_AND_A_BIT)
            self.scene.tick(self.kernel)

        self.scene.tick(self.scene.worker(Checkpoints(at=point, then=others, outside=True)))

    def told_twice(self, ticks: int) -> None:
        """Two workers at each message."""
        other = self.scene.worker()
        for _ in range(ticks):
            self.scene.tick(self.kernel)
            self.scene.tick(other)

    def message_lost(self, seconds: int) -> None:
        self.scene.clock.pass_(timedelta(seconds=seconds))

    def approver_says_yes(self, _: int) -> None:
        before = self.release.approvals.filter(decision="approve").count()
        with suppress(SlipwayError):
            approve(self.release, actor=self.scene.approver, reason="fine")
        self.is_approved |= self.release.approvals.filter(decision="approve").count() > before

    def requester_says_yes(self, _: int) -> None:
        with pytest.raises(SlipwayError):
            approve(self.release, actor=self.scene.requester, reason="fine")

    def approver_says_no(self, _: int) -> None:
        with suppress(SlipwayError):
            reject(self.release, actor=self.scene.approver, reason="worse")

    def approver_loses_the_right(self, _: int) -> None:
        Membership.objects.filter(user=self.scene.approver.user_id).update(role=Role.VIEWER)
        self.scene.approver = self.scene._person("bo", Role.VIEWER)

    def plan_is_edited(self, _: int) -> None:
        with suppress(SlipwayError):
            save_plan(actor=SYSTEM, team=self.scene.team, name="brief", body=WITHOUT_APPROVAL)

    def requester_aborts(self, _: int) -> None:
        with suppress(SlipwayError):
            abort(self.release, actor=self.scene.requester, reason="no")

    def requester_pauses(self, _: int) -> None:
        with suppress(SlipwayError):
            pause(self.release, actor=self.scene.requester)

    def requester_resumes(self, _: int) -> None:
        with suppress(SlipwayError):
            resume(self.release, actor=self.scene.requester)

    def line_stops(self, _: int) -> None:
        if not Freeze.objects.filter(ended_at=None).exists():
            stop_releases(actor=SYSTEM, team=self.scene.team, reason="All is slow.")
            self.release.refresh_from_db()
            # The step that is under way is looked at once more, and may end.
            self.held_at = self.release.step_index + 1

    def line_goes_on(self, _: int) -> None:
        for row in Freeze.objects.filter(ended_at=None):
            remove_freeze(row, actor=SYSTEM)
        self.held_at = None

    def clock_is_set(self, seconds: int) -> None:
        self.scene.clock.pass_(timedelta(seconds=(seconds - 20) * 30))

    # What holds

    def check(self) -> None:
        scene = self.scene
        service = Service.objects.get(pk=scene.service.pk)
        self.release.refresh_from_db()
        if service.stable_version_id == scene.v2.pk or self.release.state == S.PROMOTED:
            assert self.is_approved, "promoted without an approval"
        if not self.is_approved and (route := scene.gateway.desired_route(scene.name)) is not None:
            share = 0 if route.candidate is None else route.candidate_percent
            assert share <= PERCENT, "more traffic than the plan allows before its approval"
        if self.held_at is not None and not self.release.halt:
            assert self.release.step_index <= self.held_at, "advanced in spite of a stop"
        assert Release.objects.filter(service=scene.service).count() == 2
        assert scene.moves().count("promoted") <= 1

    def ends(self) -> None:
        """Nobody does anything any more: it comes to an end, and all requests are answered."""
        self.line_goes_on(1)
        self.requester_resumes(1)
        for tick in range(1, 601):
            self.works(1)
            if self.release.state in OVER:
                break
            if tick % 10 == 0:
                self.requester_resumes(1)
                waits = self.release.state == S.WAITING_APPROVAL
                self.scene.clock.pass_(timedelta(seconds=3_600 if waits else 600))
        assert self.release.state in OVER, (self.release.state, self.release.last_error)
        serving = self.scene.candidate if self.release.state == S.PROMOTED else self.scene.stable
        assert set(self.scene.split(50)) == {serving}
        assert self.scene.running(serving) == 2
        assert audit.verify().intact


HAPPENS: dict[str, Callable[[ReleaseStory, int], None]] = {
    name: getattr(ReleaseStory, name)
    for name in (
        *("works", "worker_dies", "worker_sleeps", "told_twice", "message_lost", "clock_is_set"),
        *("approver_says_yes", "requester_says_yes", "approver_says_no", "approver_loses_the_right"),
        *("plan_is_edited", "requester_aborts", "requester_pauses", "requester_resumes"),
        *("line_stops", "line_goes_on"),
    )
}
EVENTS = st.lists(st.tuples(st.sampled_from(sorted(HAPPENS)), st.integers(1, 40)), max_size=12)
SEQUENCES = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@contextmanager
def told_anew(scene: Scene) -> Iterator[None]:
    """The same beginning for every story: rows and the worlds outside go back to where they were."""
    things = {"gateway": scene.gateway, "world": scene.world, "scene": scene}
    outside = {name: copy.copy(vars(thing)) for name, thing in things.items() if name == "scene"}
    outside |= {name: copy.deepcopy(vars(things[name])) for name in ("gateway", "world")}
    at = scene.clock.at
    try:
        with undone():
            yield
    finally:
        for name, thing in things.items():
            thing.__dict__.update(outside[name])
        scene.clock.at = at


def goes_well(scene: Scene, is_far: bool, happenings: list[tuple[str, int]]) -> None:
    """`is_far`: it waits for the approval before anything happens."""
    with told_anew(scene):
        story = ReleaseStory(scene)
        if is_far:
            scene.run_until_state(S.WAITING_APPROVAL)
        for name, number in happenings:
            HAPPENS[name](story, number)
            story.check()
        story.ends()


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


@settings(SEQUENCES, max_examples=8)
@given(is_far=st.booleans(), happenings=EVENTS)
def test_no_sequence_bypasses_an_approval_or_leaves_a_release_undone(
    scene: Scene, is_far: bool, happenings: list[tuple[str, int]]
) -> None:
    goes_well(scene, is_far, happenings)


@pytest.mark.slow
@pytest.mark.timeout(8 * MANY)
@settings(SEQUENCES, max_examples=MANY)
@given(is_far=st.booleans(), happenings=EVENTS)
def test_nor_do_many(scene: Scene, is_far: bool, happenings: list[tuple[str, int]]) -> None:
    goes_well(scene, is_far, happenings)
