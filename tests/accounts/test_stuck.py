"""What is stuck or failing, of every kind: who sees it, who retries it, who answers what is in doubt."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.urls import Resolver404, resolve
from django.utils import timezone

from accounts import actors, stuck
from accounts.states import Right, Role
from clusters.models import Deployment
from common.models import AuditRecord, Intent
from common.pages import subjects
from common.reconcile import Reconciled, kernel
from hubs.models import HubSource
from hubs.services.syncs import delete_hub_source
from model_store.models import Check, StoreSchedule
from tests.accounts.rights_matrix import Scene
from tests.cast import SYSTEM, Api, client_of, person, token_of
from tests.toys.models import Parcel
from tests.toys.parcels import ParcelReconciler, World

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("import_root")]


def stick(row: Reconciled, why: str = "No space left.", **columns: Any) -> None:
    since = timezone.now() - timedelta(minutes=5)
    given = {"stuck_at": since, "failed_since": since, "last_error": why, "attempts": 5} | columns
    type(row)._default_manager.filter(pk=row.pk).update(**given)
    row.refresh_from_db()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """A world where the kernel of this process posts parcels."""
    world = World()
    world.remembers_postings = False
    monkeypatch.setattr(kernel, "_reconcilers", dict(kernel._reconcilers))
    kernel.register(ParcelReconciler(world))
    return world


@pytest.fixture
def parcel(world: World) -> Parcel:
    """A parcel whose posting was begun by a process that died."""
    parcel = Parcel.objects.create(state="boxed", next_at=timezone.now())
    Intent.objects.create(
        op_key=f"toys.parcel:{parcel.pk}:0:post",
        kind="toys.parcel",
        object_id=str(parcel.pk),
        step="post",
        wanted={"to": "posted"},
        fence=0,
        intended_at=timezone.now(),
    )
    kernel.advance("toys.parcel", parcel.pk)
    parcel.refresh_from_db()
    assert parcel.stuck_at is not None
    return parcel


def page_of(address: str) -> bool:
    """Whether a page has an address of this form, with some name or number for each column."""
    for filler in ("1", "x"):
        try:
            resolve(re.sub(r"\{\w+\}", filler, address))
        except Resolver404:
            continue
        return True
    return False


@pytest.mark.parametrize("kind", kernel.kinds)
def test_every_kind_has_a_name_a_page_a_right_and_a_place_in_the_inbox(kind: str) -> None:
    assert page_of(subjects.address_of_kind(kind)), f"offer() the page of a {kind} in its app's ready()"
    assert stuck.right_over(kind) in Right
    root, ada = person("root", superuser=True), person("ada", ours=Role.ADMIN)
    for someone in (root, ada):
        # Each column of title and address is one of the row's, and the team's way is right.
        list(stuck.rows_of(kind, actors.of_user(someone), stuck.right_over(kind)))
    model = kernel.reconciler(kind).model
    model._base_manager.values_list(*subjects.keys_followed(kind), "pk").first()


def test_a_person_retries_what_is_stuck_and_it_is_recorded() -> None:
    scene = Scene.of_role(Role.OPERATOR)
    deployment = scene.worker.deployment
    stick(deployment, "No ports left.")
    (row,) = scene.api.get("stuck/").json()["results"]
    assert (row["kind"], row["id"], row["state"]) == ("clusters.deployment", deployment.pk, "stuck")
    assert (row["why"], row["may_retry"]) == ("No ports left.", True)
    assert row["url"] == f"/fleet/deployments/{deployment.name}/"

    path = f"stuck/clusters.deployment/{deployment.pk}/retry/"
    assert scene.api.post(path, {"reason": " "}).status_code == 400
    assert scene.api.post(path, {"reason": "The range is larger."}).json()["stuck"] is False

    deployment.refresh_from_db()
    assert (deployment.stuck_at, deployment.failed_since, deployment.attempts) == (None, None, 0)
    recorded = AuditRecord.objects.get(action="deployment.retry")
    assert (recorded.reason, recorded.team_id) == ("The range is larger.", scene.team.pk)
    assert recorded.subject_id == str(deployment.pk)
    again = scene.api.post(path, {"reason": "Once more."})
    assert (again.status_code, "not stuck" in again.json()["detail"]) == (409, True)
    assert scene.api.post("stuck/no.such/1/retry/", {"reason": "x"}).status_code == 404
    assert AuditRecord.objects.filter(action="deployment.retry").count() == 1


def test_who_may_only_look_sees_it_and_may_not_retry_and_other_teams_know_nothing() -> None:
    scene = Scene.of_role(Role.VIEWER)
    stick(scene.hub_source)
    (row,) = scene.api.get("stuck/").json()["results"]
    assert (row["title"], row["may_retry"]) == (f"Hub source {scene.hub_source}", False)
    assert Api(token_of(person("eve", theirs=Role.ADMIN))).get("stuck/").json()["results"] == []


def test_what_belongs_to_no_team_is_for_those_who_operate_the_installation() -> None:
    cleaning = StoreSchedule.objects.get()
    stick(cleaning, "The disk is gone.")
    path = f"stuck/model_store.storeschedule/{cleaning.pk}/retry/"
    ada = Api(token_of(person("ada", ours=Role.ADMIN)))
    assert ada.get("stuck/").json()["results"] == []
    assert ada.post(path, {"reason": "x"}).status_code == 403
    root = person("root", superuser=True)
    assert "The disk is gone." in client_of(root).get("/models/+store/").content.decode()
    assert Api(token_of(root)).post(path, {"reason": "It is back."}).status_code == 200
    assert "The disk is gone." not in client_of(root).get("/models/+store/").content.decode()


@pytest.mark.parametrize("happened", [True, False])
def test_an_effect_in_doubt_is_answered_by_a_person_and_not_made_twice(
    world: World, parcel: Parcel, happened: bool
) -> None:
    root = Api(token_of(person("root", superuser=True)))
    (row,) = root.get("stuck/").json()["results"]
    (doubt,) = row["doubts"]
    assert (doubt["step"], doubt["wanted"]) == ("post", {"to": "posted"})
    path = f"stuck/toys.parcel/{parcel.pk}/answer/"
    given = {"op_key": doubt["op_key"], "happened": happened, "reason": "I looked."}

    assert root.post(path, given | {"op_key": "other"}).status_code == 409
    assert root.post(path, given).json()["stuck"] is False
    assert root.post(path, given).status_code == 409
    kernel.advance("toys.parcel", parcel.pk)

    parcel.refresh_from_db()
    assert parcel.state == "posted"
    assert world.postings == ([] if happened else [doubt["op_key"]])
    (recorded,) = AuditRecord.objects.filter(action="parcel.answer")
    assert recorded.detail == {
        "op_key": doubt["op_key"],
        "step": "post",
        "wanted": {"to": "posted"},
        "happened": happened,
    }


def test_home_asks_whether_it_happened_and_takes_the_answer(world: World, parcel: Parcel) -> None:
    browser = client_of(person("root", superuser=True))
    shown = browser.get("/").content.decode()
    assert "It did not happen" in shown
    assert "to: posted" in shown
    form = {"op_key": f"toys.parcel:{parcel.pk}:0:post", "happened": "no", "reason": "Not in their list."}
    path = f"/stuck/toys.parcel/{parcel.pk}/answer/"
    part = {"HX-Request": "true"}
    assert browser.post(path, form | {"happened": "perhaps"}, headers=part).status_code == 422
    assert browser.post(path, form | {"reason": ""}, headers=part).status_code == 422
    assert browser.post(path, form, headers=part).status_code == 204
    kernel.advance("toys.parcel", parcel.pk)
    assert world.postings == [form["op_key"]]
    assert "It did not happen" not in browser.get("/").content.decode()


def test_the_page_of_a_row_says_since_when_and_offers_a_retry_to_whom_it_may() -> None:
    scene = Scene.of_role(Role.OPERATOR)
    deployment = scene.worker.deployment
    address = f"/fleet/deployments/{deployment.name}/"
    operator, viewer = client_of(scene.user), client_of(person("vera", ours=Role.VIEWER))
    rows = Deployment.objects.filter(pk=deployment.pk)
    rows.update(failed_since=timezone.now() - timedelta(seconds=60), last_error="No answer.")
    assert "No answer." not in operator.get(address).content.decode()
    rows.update(failed_since=timezone.now() - timedelta(minutes=3))
    failing = operator.get(address).content.decode()
    assert "Failing since" in failing
    assert "No answer." in failing
    assert "/retry/" not in failing

    stick(deployment)
    retry = f"/stuck/clusters.deployment/{deployment.pk}/retry/"
    for browser, offered in ((operator, True), (viewer, False)):
        shown = browser.get(address).content.decode()
        assert "Stuck since" in shown
        assert (retry in shown) == offered
    assert viewer.post(retry, {"reason": "x"}, headers={"HX-Request": "true"}).status_code == 422
    assert operator.post(retry, {"reason": "Room."}, headers={"HX-Request": "true"}).status_code == 204
    assert "Stuck since" not in operator.get(address).content.decode()


def test_a_check_that_is_retried_may_start_its_process_anew() -> None:
    check = Check.objects.create(asked_by_name="ada", bytes_per_second=1, launches=9)
    stick(check, "The checking process died 9 times.")
    root = Api(token_of(person("root", superuser=True)))
    path = f"stuck/model_store.check/{check.pk}/retry/"
    assert root.post(path, {"reason": "The disk is whole."}).status_code == 200
    check.refresh_from_db()
    assert (check.launches, check.stuck_at) == (0, None)


def test_what_is_deleted_waits_for_nobody() -> None:
    scene = Scene.of_role(Role.ADMIN)
    stick(scene.hub_source)
    delete_hub_source(actor=SYSTEM, source=scene.hub_source)
    assert scene.api.get("stuck/").json()["results"] == []
    assert HubSource.objects.get(pk=scene.hub_source.pk).stuck_at is None
