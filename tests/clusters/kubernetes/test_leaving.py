"""Pods whose machine leaves service end first."""

from dataclasses import replace

from clusters.backends.kubernetes.leaving import COST, FORMER_COST
from common.fence import Fence
from kube.resources import PODS
from tests.contracts.cluster_rigs import KubernetesRig, ready, wish

Costs = dict[str, tuple[str | None, str | None]]


def costs(rig: KubernetesRig, name: str) -> Costs:
    pods = rig.cluster.client.list(PODS, labels=f"slipway.io/deployment={name}").items
    known = {one["metadata"]["name"]: one["metadata"].get("annotations") or {} for one in pods}
    return {pod: (given.get(COST), given.get(FORMER_COST)) for pod, given in known.items()}


def test_the_worker_that_others_stand_in_for_is_the_one_that_ends() -> None:
    rig = KubernetesRig(machines=3)
    spec = wish(replicas=3)
    rig.cluster.apply(spec, fence=Fence(1, 1))
    for turn, leaving in enumerate(sorted(one.name for one in ready(rig.cluster, spec))[:2]):
        spec = replace(spec, replicas=spec.replicas - 1, leaving=(leaving,))
        rig.cluster.apply(spec, fence=Fence(1, 2 + turn))
        rig.server.advance(60)
        assert leaving not in {one.name for one in ready(rig.cluster, spec)}


def test_who_no_longer_leaves_has_its_own_cost_again() -> None:
    rig = KubernetesRig()
    spec = wish(replicas=2)
    rig.cluster.apply(spec, fence=Fence(1, 1))
    first, second = [one.name for one in ready(rig.cluster, spec)]
    rig.cluster.apply(replace(spec, leaving=(first,)), fence=Fence(1, 2))
    assert costs(rig, spec.name) == {first: ("-1000000", ""), second: (None, None)}
    rig.cluster.apply(replace(spec, leaving=()), fence=Fence(1, 3))
    assert costs(rig, spec.name) == {first: (None, None), second: (None, None)}
