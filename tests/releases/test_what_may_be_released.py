"""What may be released and by whom, and what is refused."""

import pytest
from django.db import IntegrityError, transaction
from django.http import QueryDict

from accounts.errors import RightMissing
from common.actor import Actor
from gateway.models import Gateway
from model_store.models import Check, CorruptBlob
from models_registry.errors import InUse
from models_registry.filters import ModelFilter, VersionFilter
from models_registry.models import Model, Version, VersionFile
from models_registry.references import uses
from models_registry.selectors import catalogue
from models_registry.services.archiving import archive_version, restore_version
from releases.errors import AlreadyInMotion, NotPossibleNow, NotReleasable, NotWaiting, SeparationOfDuties
from releases.models import Approval, Release
from releases.selectors.releases import ways_back
from releases.services.approval import approve, reject
from releases.services.release import abort, start_release
from releases.states import IN_MOTION, ReleaseState
from tests.cast import SYSTEM
from tests.releases.world import Scene

pytestmark = pytest.mark.django_db

S = ReleaseState


def test_a_move_that_the_table_lacks_is_refused(scene: Scene) -> None:
    release = scene.start()
    Release.objects.filter(pk=release.pk).update(state=S.PAUSED, paused_from=S.PROMOTED)
    scene.run_until_state(S.STUCK)
    scene.release.refresh_from_db()
    assert scene.release.last_error == "Cannot go from paused to promoted."


def test_one_release_in_motion_per_service(scene: Scene) -> None:
    scene.start()
    with pytest.raises(AlreadyInMotion, match="is being released"):
        scene.start()


def test_what_already_serves_cannot_be_released(scene: Scene) -> None:
    with pytest.raises(NotReleasable, match="already serves"):
        scene.start(scene.v1)


def test_an_archived_version_cannot_be_released_until_it_is_restored(scene: Scene) -> None:
    archive_version(actor=scene.requester, version=scene.v2, reason="Worse.")
    with pytest.raises(NotReleasable, match="is archived"):
        scene.start()
    with pytest.raises(InUse, match="is still used by"):
        archive_version(actor=scene.requester, version=scene.v1)
    restore_version(actor=scene.requester, version=scene.v2)
    scene.start()
    with pytest.raises(InUse, match="is still used by"):
        archive_version(actor=scene.requester, version=scene.v2)


def test_a_version_with_a_damaged_file_cannot_be_released(scene: Scene) -> None:
    VersionFile.objects.bulk_create(
        [VersionFile(version=scene.v2, path="model.gguf", size=1, sha256="d" * 64, format="gguf")]
    )
    check = Check.objects.create(asked_by_name="someone", bytes_per_second=1, state="done")
    corrupt_blob = CorruptBlob.objects.create(
        found_by=check, sha256="d" * 64, size=1, detail="Gone.", state="lost"
    )
    with pytest.raises(NotReleasable, match="1 of its stored files"):
        scene.start()
    CorruptBlob.objects.filter(pk=corrupt_blob.pk).update(state="repaired")
    scene.start()


def test_a_service_keeps_its_way_back(scene: Scene) -> None:
    assert ways_back() == {}
    scene.start()
    scene.run_until_state(S.WAITING_APPROVAL)
    scene.approve()
    scene.run_until_state(S.PROMOTED)
    name = scene.service.name
    assert ways_back() == {scene.v1.pk: [f"rollback target of service {name}"]}
    scene.service.change(stable_version=None)
    assert ways_back()[scene.v2.pk] == [f"served last by service {name}"]


def test_a_second_try_at_the_first_version_is_compared_with_nothing(scene: Scene) -> None:
    scene.service.change(stable_version=None, stable_deployment="")
    with pytest.raises(NotReleasable, match=r"that step 4 of the plan .* take the plan direct"):
        scene.start(plan_name=scene.service.plan_name)
    assert scene.start().plan_name == "direct"
    scene.run_until_state(S.PROMOTED)


def test_what_nobody_serves_is_found_though_a_service_serves_nothing_yet(scene: Scene) -> None:
    idle = Model.objects.create(team=scene.service.team, name="idle")
    failed = Version.objects.create(model=idle, number=1, name="v1", state="failed")
    scene.service.change(stable_version=None)
    scene.start()
    assert list(ModelFilter({"served": "false"}, queryset=catalogue.models(SYSTEM)).qs) == [idle]
    assert list(VersionFilter(QueryDict("served=false"), queryset=Version.objects.all()).qs) == [failed]
    assert f"service {scene.service.name} (candidate)" in uses([scene.v2.pk])[scene.v2.pk]


def test_the_requester_cannot_approve_even_with_the_right(scene: Scene) -> None:
    start_release(actor=scene.approver, service=scene.service, version=scene.v2)
    scene.release = Release.objects.get(service=scene.service, state__in=IN_MOTION)
    scene.run_until_state(S.WAITING_APPROVAL)
    with pytest.raises(SeparationOfDuties):
        scene.approve()
    assert not Approval.objects.exists()


def test_the_database_itself_keeps_approver_and_requester_apart(scene: Scene) -> None:
    release = scene.start()
    user = release.requested_by
    with pytest.raises(IntegrityError), transaction.atomic():
        Approval.objects.create(
            release=release, step_index=6, plan_hash=release.plan_hash, decision="approve", by=user,
            requester=user, separate_requester=True, reason="me",
        )  # fmt: skip


def test_a_viewer_may_neither_start_nor_approve(scene: Scene) -> None:
    outsider = Actor(name="eve", user_id=None, via="api")
    with pytest.raises(RightMissing):
        start_release(actor=outsider, service=scene.service, version=scene.v2)
    scene.start()
    scene.run_until_state(S.WAITING_APPROVAL)
    with pytest.raises(RightMissing):
        approve(scene.release, actor=scene.requester, reason="no right")


def test_only_one_word_counts_per_approval(scene: Scene) -> None:
    scene.start()
    scene.run_until_state(S.WAITING_APPROVAL)
    scene.approve()
    with pytest.raises(NotWaiting):
        reject(scene.release, actor=scene.approver, reason="too late")


def test_what_has_ended_cannot_be_aborted(scene: Scene) -> None:
    scene.start()
    abort(scene.release, actor=scene.requester, reason="no")
    scene.run_until_state(S.ABORTED)
    with pytest.raises(NotPossibleNow, match="has ended"):
        abort(scene.release, actor=scene.requester, reason="again")


def test_what_the_gateway_can_never_carry_out_does_not_begin(scene: Scene) -> None:
    why = "The gateway class lab does not support HTTPRoutePathRewrite."
    Gateway.objects.filter(cluster=scene.service.cluster).update(lacks=why)
    with pytest.raises(NotReleasable, match=why):
        scene.start()
    assert not Release.objects.filter(version=scene.v2).exists()
    Gateway.objects.update(lacks="")
    scene.start()
