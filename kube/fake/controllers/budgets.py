"""The disruption controller: how many pods of a budget are healthy, and how many may go."""

from kube.fake.controllers.controller_tools import ControllerTools, Object, controller_of, set_condition
from kube.fake.controllers.deployments import REPLICA_SETS, amount
from kube.fake.controllers.stateful_sets import STATEFUL_SETS
from kube.fake.evicting import is_ready
from kube.fake.selectors import matches_labels

BUDGETS = "poddisruptionbudgets.policy"
_SCALED = {"ReplicaSet": REPLICA_SETS, "StatefulSet": STATEFUL_SETS}


def step(hands: ControllerTools) -> None:
    for budget in hands.all(BUDGETS):
        namespace, spec = budget["metadata"]["namespace"], budget["spec"]
        pods = [
            pod
            for pod in hands.look("pods", namespace)
            if matches_labels(spec.get("selector"), pod["metadata"].get("labels") or {})
        ]
        status = _status(hands, budget, pods)
        if status != budget["status"]:
            hands.set_status(BUDGETS, budget, status)


def _status(hands: ControllerTools, budget: Object, pods: list[Object]) -> Object:
    spec, now = budget["spec"], hands.clock.stamp()
    disrupted = {
        name: since
        for name, since in (budget["status"].get("disruptedPods") or {}).items()
        if any(pod["metadata"]["name"] == name and "deletionTimestamp" not in pod["metadata"] for pod in pods)
    }
    current = [pod for pod in pods if pod["status"].get("phase") not in ("Succeeded", "Failed")]
    expected = _expected(hands, current)
    if "maxUnavailable" in spec:
        desired = max(0, expected - amount(spec["maxUnavailable"], expected, is_up=True))
    elif isinstance(spec.get("minAvailable"), str):
        desired = amount(spec["minAvailable"], expected, is_up=True)
    else:
        desired, expected = int(spec.get("minAvailable") or 0), len(current)
    healthy = sum(
        is_ready(pod)
        for pod in current
        if "deletionTimestamp" not in pod["metadata"] and pod["metadata"]["name"] not in disrupted
    )
    allowed = max(0, healthy - desired) if expected else 0
    status: Object = {"observedGeneration": budget["metadata"]["generation"]}
    if disrupted:
        status["disruptedPods"] = disrupted
    status |= {
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
    }
    conditions = [dict(one) for one in budget["status"].get("conditions") or ()]
    set_condition(
        conditions,
        "DisruptionAllowed",
        "True" if allowed else "False",
        now,
        reason="SufficientPods" if allowed else "InsufficientPods",
        message="",
    )
    conditions[-1]["observedGeneration"] = budget["metadata"]["generation"]
    status["conditions"] = conditions
    return status


def _expected(hands: ControllerTools, pods: list[Object]) -> int:
    """Return the pods that their controllers want; pods without controllers do not count."""
    owners = {}
    for pod in pods:
        owner = controller_of(pod)
        kind = _SCALED.get(owner["kind"]) if owner else None
        found = hands.peek(kind, pod["metadata"]["namespace"], owner["name"]) if owner and kind else None
        above = controller_of(found) if found else None
        if found and above:
            found = hands.peek("deployments.apps", found["metadata"]["namespace"], above["name"]) or found
        if found is not None:
            owners[found["metadata"]["uid"]] = found["spec"].get("replicas", 0)
    return sum(owners.values())
