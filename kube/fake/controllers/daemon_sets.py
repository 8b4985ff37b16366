"""DaemonSets: a pod on each machine that the template's nodeSelector names, and on no other. A changed
template replaces no pod."""

from kube.fake.controllers.controller_tools import ControllerTools, Object, is_active, is_owned_by
from kube.fake.controllers.replica_sets import pod_of
from kube.fake.evicting import is_ready

DAEMON_SETS = "daemonsets.apps"


def step(hands: ControllerTools) -> None:
    for one in hands.look(DAEMON_SETS):
        if "deletionTimestamp" not in one["metadata"]:
            _daemon_set(hands, one)


def _daemon_set(hands: ControllerTools, one: Object) -> None:
    wanted = one["spec"]["template"]["spec"].get("nodeSelector") or {}
    machines = {
        node["metadata"]["name"]
        for node in hands.look("nodes")
        if wanted.items() <= (node["metadata"].get("labels") or {}).items()
    }
    pods = [pod for pod in hands.look("pods", one["metadata"]["namespace"]) if is_owned_by(pod, one)]
    active = {pod["spec"]["nodeName"]: pod for pod in pods if is_active(pod)}
    for machine in sorted(active.keys() - machines):
        hands.delete("pods", active.pop(machine))
    # As the controller does, it waits for the end of the former pod of a machine.
    for machine in sorted(machines - {pod["spec"]["nodeName"] for pod in pods}):
        pod = pod_of(one)
        pod["spec"]["nodeName"] = machine
        active[machine] = hands.create("pods", pod)
    status = {
        "desiredNumberScheduled": len(machines),
        "currentNumberScheduled": len(active),
        "numberMisscheduled": 0,
        "numberReady": sum(map(is_ready, active.values())),
        "observedGeneration": one["metadata"]["generation"],
    }
    if status != one.get("status"):
        hands.set_status(DAEMON_SETS, one, status)
