from django.utils import timezone

from accounts.states import Right
from capacity.models import CapacityPlan, CardLayout, Pool, PoolMember
from capacity.services import create_pool, set_groups, set_membership, set_policy, set_queue
from capacity.services.workloads import submit_workload
from clusters.models import Cluster, Deployment
from gateway import models as gateways
from tests.accounts.rights_matrix.scene import Access, Route, Scene, new_name
from tests.cast import SYSTEM


def _pool(scene: Scene) -> Pool:
    return create_pool(actor=SYSTEM, team=scene.team, name=new_name(), cluster=scene.cluster, workers=8)


def _row(scene: Scene) -> dict[str, int]:
    return {"pool": _pool(scene).pk}


def _member(scene: Scene) -> dict[str, object]:
    deployment = scene.worker.deployment
    route = {"stable_target": deployment.name, "stable_version": "chat:v1", "writer": 0, "writer_turn": 0}
    gateway, _made = gateways.Gateway.objects.get_or_create(cluster=deployment.cluster)
    name = f"chat-{deployment.pk}"
    Deployment.objects.filter(pk=deployment.pk).update(service=name)
    columns = {"gateway": gateway, "changed_at": timezone.now(), **route}
    gateways.Route.objects.get_or_create(service=name, defaults=columns)
    made = {"team": scene.team, "cluster": deployment.cluster, "workers": 8}
    pool = Pool.objects.filter(memberships__service=name).first() or create_pool(
        actor=SYSTEM, name=new_name(), **made
    )
    set_membership(pool, actor=SYSTEM, service=name, guarantee=1, limit=4)
    return {"pool": pool.pk, "service": name}


def _groups(scene: Scene) -> dict[str, object]:
    service = str(_member(scene)["service"])
    Deployment.objects.filter(service=service).update(engine="app")
    set_groups(PoolMember.objects.get(service=service), actor=SYSTEM)
    return {"service": service}


def _queue(scene: Scene) -> dict[str, object]:
    service = str(_groups(scene)["service"])
    set_queue(PoolMember.objects.get(service=service), actor=SYSTEM)
    return {"service": service}


def _policy(scene: Scene) -> dict[str, object]:
    service = str(_member(scene)["service"])
    return {"policy": set_policy(PoolMember.objects.get(service=service), actor=SYSTEM, law={}).pk}


def _plan(scene: Scene) -> dict[str, int]:
    return {"plan": CapacityPlan.objects.create(pool=_pool(scene)).pk}


def _ended(scene: Scene) -> dict[str, int]:
    return {"plan": CapacityPlan.objects.create(pool=_pool(scene), state="done").pk}


def _pool_of_cards(scene: Scene) -> Pool:
    inventory = [{"machine": new_name(), "cards": 8}]
    made = {"kind": "training", "inventory": inventory, "team": scene.team, "cluster": scene.cluster}
    return create_pool(actor=SYSTEM, name=new_name(), **made)


def _cards(scene: Scene) -> dict[str, int]:
    return {"pool": _pool_of_cards(scene).pk}


MACHINE = "of-h100s"


def _machine(scene: Scene) -> dict[str, int]:
    """A pool whose one machine has a name that is known beforehand."""
    known = Pool.objects.filter(cluster=scene.cluster, name="h100s").first()
    if known is None:
        inventory = [{"machine": MACHINE, "cards": 8, "model": "H100-80GB"}]
        made = {"kind": "training", "inventory": inventory, "team": scene.team, "cluster": scene.cluster}
        known = create_pool(actor=SYSTEM, name="h100s", **made)
    return {"pool": known.pk}


def _layout(scene: Scene) -> dict[str, int]:
    pool = Pool.objects.get(pk=_machine(scene)["pool"])
    columns = {"pool": pool, "machine": MACHINE, "card": 0, "model": "H100-80GB", "state": "applied"}
    return {"layout": CardLayout.objects.create(**columns, decided_by="test").pk}


def _workload(scene: Scene) -> dict[str, int]:
    pool = _pool_of_cards(scene)
    row = submit_workload(
        actor=SYSTEM, team=scene.team, name=new_name(), pool=pool, cards=1, command=["true"]
    )
    return {"workload": row.pk}


def _wish(scene: Scene) -> dict[str, object]:
    """On a cluster of containers: beside the control plane it takes the right to operate the fleet."""
    far, _made = Cluster.objects.get_or_create(name="far", defaults={"kind": "kubernetes"})
    made = {"kind": "training", "selector": {"pool": new_name()}, "team": scene.team, "cluster": far}
    pool = create_pool(actor=SYSTEM, name=new_name(), **made)
    names = {"name": new_name(), "team": scene.team.name, "pool": pool.name}
    return {**names, "cards": 1, "command": ["true"]}


def _new(scene: Scene) -> dict[str, object]:
    return {"name": "weekly", "team": scene.team.name, "cluster": scene.cluster.name, "workers": 4}


def _share(scene: Scene) -> dict[str, object]:
    return {"guarantee": 1, "limit": 4}


ROUTES = [
    Route("GET", "capacity/allocations/", Access.SIGNED_IN, owned=False),
    Route("GET", "capacity/workloads/", Access.SIGNED_IN, owned=False),
    Route("POST", "capacity/workloads/", Right.CAPACITY_WRITE, body=_wish, status=201, owned=False),
    Route("GET", "capacity/workloads/{workload}/", Right.READ, fill=_workload),
    Route("GET", "capacity/workloads/{workload}/log/", Right.READ, fill=_workload),
    *(
        Route("POST", f"capacity/workloads/{{workload}}/{deed}/", Right.CAPACITY_WRITE, fill=_workload)
        for deed in ("suspend", "resume", "cancel")
    ),
    Route("GET", "capacity/pools/", Access.SIGNED_IN, owned=False),
    Route("POST", "capacity/pools/", Right.CAPACITY_WRITE, body=_new, status=201, owned=False),
    Route("GET", "capacity/pools/{pool}/", Right.READ, fill=_row),
    Route("PATCH", "capacity/pools/{pool}/", Right.CAPACITY_WRITE, fill=_row, body=lambda _: {"workers": 9}),
    Route("GET", "capacity/pools/{pool}/fragments/", Right.READ, fill=_cards),
    Route(
        "POST",
        "capacity/pools/{pool}/defragment/",
        Right.CAPACITY_WRITE,
        fill=_cards,
        body=lambda _: {"cards": 8, "dry_run": True},
    ),
    Route("GET", "capacity/pools/{pool}/cards/", Right.READ, fill=_cards),
    Route("GET", "capacity/pools/{pool}/needs/", Right.READ, fill=_cards),
    Route(
        "POST",
        "capacity/pools/{pool}/layout/",
        Right.CAPACITY_WRITE,
        fill=_machine,
        body=lambda _: {"machine": MACHINE, "card": 0, "needs": [], "dry_run": True},
    ),
    Route("GET", "capacity/switch-times/", Access.SIGNED_IN, owned=False),
    Route("GET", "capacity/layouts/", Access.SIGNED_IN, owned=False),
    Route("GET", "capacity/layouts/{layout}/", Right.READ, fill=_layout),
    Route("POST", "capacity/layouts/{layout}/undo/", Right.CAPACITY_APPLY, fill=_layout),
    Route("DELETE", "capacity/pools/{pool}/", Right.CAPACITY_WRITE, fill=_row, status=204),
    Route("PUT", "capacity/pools/{pool}/members/{service}/", Right.CAPACITY_WRITE, fill=_member, body=_share),
    Route(
        "DELETE", "capacity/pools/{pool}/members/{service}/", Right.CAPACITY_WRITE, fill=_member, status=204
    ),
    Route("GET", "capacity/groups/", Access.SIGNED_IN, owned=False),
    Route("GET", "capacity/groups/{service}/", Right.READ, fill=_groups),
    Route(
        "PUT",
        "capacity/groups/{service}/",
        Right.CAPACITY_WRITE,
        fill=_groups,
        body=lambda _: {"least_online": 2},
    ),
    Route("DELETE", "capacity/groups/{service}/", Right.CAPACITY_WRITE, fill=_groups, status=204),
    Route("GET", "capacity/queues/", Access.SIGNED_IN, owned=False),
    Route("GET", "capacity/queues/{service}/", Right.READ, fill=_queue),
    Route(
        "PUT",
        "capacity/queues/{service}/",
        Right.CAPACITY_WRITE,
        fill=_queue,
        body=lambda _: {"item_seconds": 2},
    ),
    Route("DELETE", "capacity/queues/{service}/", Right.CAPACITY_WRITE, fill=_queue, status=204),
    Route("GET", "capacity/policies/", Access.SIGNED_IN, owned=False),
    Route("GET", "capacity/policies/{policy}/", Right.READ, fill=_policy),
    Route(
        "POST",
        "capacity/policies/",
        Right.CAPACITY_WRITE,
        body=lambda scene: {"service": _member(scene)["service"], "law": {"target": 0.8}},
        status=201,
    ),
    Route(
        "POST",
        "capacity/policies/replay/",
        Right.READ,
        body=lambda scene: {"service": _member(scene)["service"], "law": {}, "points": [[0, 1], [10, 1]]},
    ),
    Route("GET", "capacity/plans/", Access.SIGNED_IN, owned=False),
    Route("GET", "capacity/plans/{plan}/", Right.READ, fill=_plan),
    Route("POST", "capacity/plans/{plan}/apply/", Right.CAPACITY_APPLY, fill=_plan),
    Route("POST", "capacity/plans/{plan}/approve/", Right.CAPACITY_APPLY, fill=_plan),
    Route("POST", "capacity/plans/{plan}/reject/", Right.CAPACITY_APPLY, fill=_plan),
    Route("POST", "capacity/plans/{plan}/undo/", Right.CAPACITY_APPLY, fill=_ended),
    Route("GET", "capacity/stop/", Access.SIGNED_IN, owned=False),
    Route(
        "POST",
        "capacity/stop/",
        Right.CAPACITY_APPLY,
        body=lambda _: {"is_on": True, "reason": "x"},
        owned=False,
    ),
]
