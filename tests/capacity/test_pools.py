"""Pools look at real rows and heartbeats, and plans move workers of a cluster in memory."""

import pytest
import redis
from django.conf import settings as django_settings
from django.db.models import Q

from capacity import services
from capacity.decisions import digest_of
from capacity.errors import CapacityStopped, InvalidPool, PlanNotOpen
from capacity.models import CapacityPlan, Pool, PoolMember, SwitchTime
from capacity.observing import look_at
from clusters.models import Deployment, Node
from common.live import shared
from releases.models import Service
from tests.capacity.shared_pool import Shared
from tests.cast import SYSTEM, api, client_of, person
from tests.clusters.world import gpu_of, node_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.any_database]


@pytest.fixture
def shared_pool() -> Shared:
    return Shared()


def test_an_advising_pool_proposes_and_moves_nothing(shared_pool: Shared) -> None:
    """The load of all services comes before the headroom of one when the pool is full."""
    shared_pool.load = {"chat": 2.85, "code": 0.3}
    shared_pool.pass_(30)
    plan = shared_pool.plan()
    assert plan.state == "proposed"
    assert {c["service"]: (c["before"], c["after"]) for c in plan.changes} == {"chat": (3, 4), "code": (3, 2)}
    assert shared_pool.workers() == {"chat": 3, "code": 3}
    assert plan.inputs["services"]["chat"] == {
        "guarantee": 1, "limit": 6, "weight": 1.0, "policy": None, "switch_seconds": 60.0,
    }  # fmt: skip
    assert (plan.cost, plan.digest) == (60.0, digest_of(plan)), "one worker starts for a minute"
    assert plan.gain["short_after"] < plan.gain["short_before"]
    bound = {look["service"]: look["bound"] for look in plan.looks}
    assert bound["chat"] in ("", "pool_full")

    shared_pool.load = {"chat": 1.5, "code": 1.5}
    shared_pool.pass_(90)
    plan.refresh_from_db()
    assert plan.state == "superseded", "the load has gone"


def test_a_plan_that_was_altered_past_slipway_is_said_to_be_and_moves_nothing(shared_pool: Shared) -> None:
    shared_pool.load = {"chat": 2.85, "code": 0.3}
    shared_pool.pass_(30)
    plan = shared_pool.plan()
    ada = api(person("ada", vision="admin"))
    assert ada.get(f"capacity/plans/{plan.pk}/").json()["is_as_made"] is True
    altered = [{**change, "after": change["after"] + 1} for change in plan.changes]
    CapacityPlan.objects.update(changes=altered)

    assert ada.get(f"capacity/plans/{plan.pk}/").json()["is_as_made"] is False
    refused = ada.post(f"capacity/plans/{plan.pk}/apply/", {"reason": ""})
    assert (refused.status_code, "altered" in refused.json()["detail"]) == (409, True)
    page = client_of(person("vi", vision="viewer")).get(f"/capacity/plans/{plan.pk}/").content.decode()
    assert "This plan was altered" in page
    shared_pool.pass_(20)
    plan.refresh_from_db()
    assert (plan.state, shared_pool.plan().pk > plan.pk) == ("superseded", True)


def test_workers_go_from_the_idle_to_the_busy_service_and_back_by_undo(shared_pool: Shared) -> None:
    Service.objects.create(
        name="chat", model=shared_pool.scene.version.model, team=shared_pool.scene.team,
        cluster=shared_pool.scene.cluster, replicas=3,
    )  # fmt: skip
    shared_pool.load = {"chat": 2.85, "code": 0.3}
    shared_pool.pass_(30)
    plan = shared_pool.plan()

    services.apply_plan(plan, actor=SYSTEM)
    shared_pool.pass_(30)
    plan.refresh_from_db()
    assert plan.state == "done"
    assert shared_pool.workers() == {"chat": 4, "code": 2}
    assert Service.objects.get(name="chat").replicas == 4, "the next release starts as many"
    assert PoolMember.objects.get(service="chat").switch_seconds is not None
    measured = SwitchTime.objects.get()
    assert (str(measured.model), measured.kind) == ("story", "CPU"), "by model and kind of machine"
    assert None not in (measured.drain_seconds, measured.start_seconds)
    assert measured.load_seconds == 1.5, "as its new worker says"
    olga = api(person("olga", **{shared_pool.scene.team.name: "viewer"}))
    (told,) = olga.get("capacity/switch-times/").json()["results"]
    assert (told["load_seconds"], told["ready_seconds"]) == (1.5, measured.start_seconds - 1.5)

    proposal = CapacityPlan.objects.create(pool=plan.pool, kind=plan.kind, changes=plan.changes)
    assert proposal.state == "proposed"
    services.undo_plan(plan, actor=SYSTEM)
    proposal.refresh_from_db()
    assert proposal.state == "superseded", "it was made for what the undo changes"
    assert proposal.ended_at is not None
    shared_pool.pass_(30)
    plan.refresh_from_db()
    assert plan.state == "undone"
    assert plan.undone_by.state == "done"
    assert shared_pool.workers() == {"chat": 3, "code": 3}


def test_headroom_follows_from_the_kind_of_machine_that_would_be_started(shared_pool: Shared) -> None:
    shared_pool.scene.pass_(2)
    slow, fast = (node_of(shared_pool.scene.cluster, name) for name in ("slow", "fast"))
    gpu_of(slow, name="L4"), gpu_of(fast, name="H200")
    Node.objects.filter(pk__in=(slow.pk, fast.pk)).update(allocatable={"gpu": 8})
    model = shared_pool.scene.version.model
    SwitchTime.objects.create(model=model, kind="L4", start_seconds=180.0)
    SwitchTime.objects.create(model=model, kind="H200", start_seconds=10.0)

    def target(closed: Node) -> float:
        Node.objects.update(is_cordoned=False)
        Node.objects.filter(Q(pk=closed.pk) | ~Q(name__in=("slow", "fast"))).update(is_cordoned=True)
        shared_pool.beat()
        return look_at(Pool.objects.get(), shared_pool.scene.clock()).looks[0].target

    assert target(closed=fast) == pytest.approx(0.70)
    assert target(closed=slow) == pytest.approx(0.87)


@pytest.mark.slow
def test_more_workers_that_raise_nothing_are_not_followed_by_yet_more(shared_pool: Shared) -> None:
    """Whatever is asked, the service answers thirty requests a second: its database is what is slow."""
    Pool.objects.update(state="automatic")
    PoolMember.objects.update(limit=60)
    shared_pool.load, shared_pool.queued = {"chat": 99.0, "code": 1.5}, {"chat": 5}
    seen = set()
    for step in range(40):
        if step == 12:
            Pool.objects.update(workers=60)
        shared_pool.answered += 180 // shared_pool.workers()["chat"]
        shared_pool.pass_(6)
        look = PoolMember.objects.get(service="chat").look
        if step > 34:
            seen.add((look["have"], look["why"]))
    assert len({have for have, _why in seen}) == 1, seen
    assert max(have for have, _why in seen) < 50, "of sixty"
    assert {why for _have, why in seen} == {"did_not_help"}


def test_an_idle_service_gives_workers_away_only_after_the_hold(shared_pool: Shared) -> None:
    shared_pool.load = {"chat": 1.5, "code": 0.3}
    shared_pool.pass_(500, by=20)
    assert not CapacityPlan.objects.exists()
    shared_pool.pass_(500, by=20)
    assert [(c["service"], c["after"]) for c in shared_pool.plan().changes] == [("chat", 2), ("code", 1)]


def test_an_automatic_pool_applies_its_plans_by_itself(shared_pool: Shared) -> None:
    Pool.objects.update(workers=9, state="automatic")
    shared_pool.load = {"chat": 2.85, "code": 1.5}
    shared_pool.pass_(60)
    assert shared_pool.workers() == {"chat": 4, "code": 3}
    assert shared_pool.plan().decided_by == "capacity"


def test_a_proposal_begins_by_itself_once_its_pool_is_automatic(shared_pool: Shared) -> None:
    Pool.objects.update(workers=9)
    shared_pool.load = {"chat": 2.85, "code": 1.5}
    shared_pool.pass_(20)
    plan = shared_pool.plan()
    assert plan.state == "proposed"

    Pool.objects.update(state="automatic")
    shared_pool.pass_(40)
    plan.refresh_from_db()
    assert plan.state == "done"
    assert shared_pool.workers() == {"chat": 4, "code": 3}


def test_the_kill_switch_leaves_a_plan_where_it_is_and_begins_no_other(shared_pool: Shared) -> None:
    Pool.objects.update(workers=9, state="automatic")
    shared_pool.scene.world.starts_as = type(shared_pool.scene.world.starts_as).STARTING
    shared_pool.load = {"chat": 2.85, "code": 1.5}
    shared_pool.pass_(20)
    plan = shared_pool.plan()
    assert plan.state == "acquiring"

    services.stop(actor=SYSTEM, reason="Too much at once.")
    shared_pool.pass_(4)
    plan.refresh_from_db()
    assert plan.state == "stopped"
    shared_pool.pass_(60)
    assert CapacityPlan.objects.count() == 1
    with pytest.raises(CapacityStopped):
        services.undo_plan(plan, actor=SYSTEM)


def test_silence_is_not_idleness(shared_pool: Shared) -> None:
    """A service without heartbeats keeps its workers, however long, and says why."""
    shared_pool.load = {"chat": 0.3, "code": 0.3}
    shared_pool.pass_(20)
    shared_pool.beat = lambda: None  # type: ignore[method-assign]
    with redis.Redis.from_url(django_settings.REDIS_URL) as client:
        client.delete(shared._hash("heartbeats"))
    shared_pool.pass_(900, by=30)
    assert CapacityPlan.objects.count() == 0
    assert all(one.look["held"] == "no_heartbeats" for one in PoolMember.objects.all())


def test_a_service_in_release_keeps_its_workers(shared_pool: Shared) -> None:
    shared_pool.scene.deployment("chat-v2", service="chat", replicas=1)
    Pool.objects.update(workers=9)
    shared_pool.load = {"chat": 2.85, "code": 1.5}
    shared_pool.beat()
    seen = look_at(Pool.objects.get(), shared_pool.scene.clock())
    assert not seen.changes
    assert {look.service: look.held for look in seen.looks} == {"chat": "in_release", "code": ""}


def test_a_scale_set_past_slipway_pauses_plans_for_its_service_until_it_is_taken_back(
    shared_pool: Shared,
) -> None:
    Pool.objects.update(workers=9, state="automatic")
    shared_pool.scene.world.starts_as = type(shared_pool.scene.world.starts_as).STARTING
    shared_pool.load = {"chat": 2.85, "code": 1.5}
    shared_pool.pass_(20)
    plan = shared_pool.plan()
    assert plan.state == "acquiring"

    shared_pool.scene.world.starts_as = type(shared_pool.scene.world.starts_as).READY
    shared_pool.scene.world.autoscale("chat-v1", 2)
    shared_pool.pass_(40)
    plan.refresh_from_db()
    assert plan.state == "failed"
    assert "autoscaler" in plan.reason
    assert PoolMember.objects.get(service="chat").look["held"] == "scaled_by_others"
    assert CapacityPlan.objects.count() == 1
    row = Deployment.objects.get(name="chat-v1")
    assert (row.wanted_replicas, row.workers.count()) == (2, 2)

    root = person("root", superuser=True)
    assert "+take-back/" in client_of(root).get("/fleet/deployments/chat-v1/").content.decode()
    rest = api(root)
    reason = {"reason": "The autoscaler is gone."}
    assert rest.post("deployments/chat-v1/take-back/", reason).status_code == 202
    shared_pool.pass_(20)
    row.refresh_from_db()
    assert (row.scaled_by_others, row.workers.count()) == (False, row.replicas)
    assert rest.post("deployments/chat-v1/take-back/", reason).status_code == 409


def test_an_autoscaler_reads_what_the_law_wants_of_a_service_that_is_left_to_it(shared_pool: Shared) -> None:
    Deployment.objects.filter(name="chat-v1").update(pod={"replicas": "external"})
    Pool.objects.update(workers=9, state="automatic")
    shared_pool.load = {"chat": 2.85, "code": 1.5}
    shared_pool.pass_(30)
    pool = api(person("dina", vision="viewer")).get(f"capacity/pools/{shared_pool.pool.pk}/").json()
    (chat,) = (one["look"] for one in pool["members"] if one["service"] == "chat")
    assert (chat["have"], chat["wanted"], chat["held"]) == (3, 4, "scaled_by_others")
    assert shared_pool.workers() == {"chat": 3, "code": 3}


def test_guarantees_over_the_pool_and_a_second_pool_for_a_service_are_refused(shared_pool: Shared) -> None:
    with pytest.raises(InvalidPool) as refused:
        services.set_membership(shared_pool.pool, actor=SYSTEM, service="chat", guarantee=6, limit=6)
    assert "guarantee" in refused.value.fields
    with pytest.raises(InvalidPool):
        services.set_membership(shared_pool.pool, actor=SYSTEM, service="chat", guarantee=3, limit=2)
    other = services.create_pool(
        actor=SYSTEM, team=shared_pool.scene.team, name="other", cluster=shared_pool.scene.cluster, workers=6
    )
    with pytest.raises(InvalidPool) as refused:
        services.set_membership(other, actor=SYSTEM, service="chat", guarantee=1, limit=2)
    assert "service" in refused.value.fields


def test_a_plan_is_decided_once(shared_pool: Shared) -> None:
    plan = CapacityPlan.objects.create(pool=shared_pool.pool)
    services.reject_plan(plan, actor=SYSTEM)
    with pytest.raises(PlanNotOpen):
        services.apply_plan(plan, actor=SYSTEM)


def test_people_make_a_pool_give_it_services_and_decide_on_the_pages(shared_pool: Shared) -> None:
    browser = client_of(person("ada", vision="approver"))
    sent = {
        "name": "night",
        "team": shared_pool.scene.team.pk,
        "cluster": "local",
        "kind": "serving",
        "workers": 4,
    }
    assert browser.post("/capacity/+new/", sent).status_code == 302
    page = f"/capacity/{Pool.objects.get(name='night').pk}/"
    assert "Workers" in browser.get(page).content.decode()
    member = {"form": "member", "service": "chat", "guarantee": 1, "limit": 3, "weight": 1}
    answer = browser.post(page, member)
    assert answer.status_code == 422, "chat is in another pool"
    browser.post(f"/capacity/{shared_pool.pool.pk}/chat/+remove/")
    assert browser.post(page, member).status_code == 302

    plan = CapacityPlan.objects.create(
        pool=shared_pool.pool,
        changes=[{"service": "code", "deployment": "code-v1", "before": 3, "after": 2, "why": ""}],
    )
    assert "+apply/" in browser.get(f"/capacity/plans/{plan.pk}/").content.decode()
    assert browser.post(f"/capacity/plans/{plan.pk}/+apply/").status_code in (204, 302)
    plan.refresh_from_db()
    assert plan.state == "releasing"
    assert plan.decided_by == "ada"


def test_rest_lists_pools_with_what_their_services_need(shared_pool: Shared) -> None:
    shared_pool.pass_(20)
    rest = api(person("dina", vision="developer"))
    pool = rest.get(f"capacity/pools/{shared_pool.pool.pk}/").json()
    assert [member["service"] for member in pool["members"]] == ["chat", "code"]
    assert pool["members"][0]["look"]["load"] == pytest.approx(1.5)
    assert rest.patch(f"capacity/pools/{pool['id']}/", {"mode": "automatic"}).status_code == 403
    assert rest.patch(f"capacity/pools/{pool['id']}/", {"workers": 1}).status_code == 400


def test_the_services_of_a_pool_are_changed_as_a_whole_list() -> None:
    world = Shared()
    who = api(person("ada", **{world.scene.team.name: "admin"}))
    address = f"capacity/pools/{world.pool.pk}/"
    code = {"service": "code", "guarantee": 1, "limit": 6, "weight": 1.0}
    answer = who.patch(address, {"members": [code]})
    assert answer.status_code == 200, answer.content
    assert [one["service"] for one in answer.json()["members"]] == ["code"]
    assert who.patch(address, {"budget": 3}).json()["members"][0]["service"] == "code", "left out: they stay"
    refused = who.patch(address, {"budget": 4, "members": [{**code, "service": "nowhere"}]})
    assert refused.status_code == 400
    assert (world.pool.memberships.get().service, Pool.objects.get().budget) == ("code", 3)
