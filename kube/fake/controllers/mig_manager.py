"""MIG manager of NVIDIA's GPU operator: divides the GPUs of a machine by the layout that its label names.

It knows the layouts `all-disabled` and `all-PROFILE` of its usual configuration, takes a turn for each, and
offers the instances in place of GPUs, as the device plugin does with the strategy `mixed`. It does not look
whether GPUs are in use (https://github.com/NVIDIA/mig-parted). Assumed, not recorded.
"""

from kube.fake.controllers.controller_tools import ControllerTools, Object

CONFIG, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
INSTANCES = {"1g.5gb": 7, "1g.10gb": 7, "2g.10gb": 3, "2g.20gb": 3, "3g.20gb": 2, "3g.40gb": 2, "7g.80gb": 1}
GPU, SLICE = "nvidia.com/gpu", "nvidia.com/mig-"


def step(hands: ControllerTools) -> None:
    for node in hands.look("nodes"):
        labels = node["metadata"].get("labels") or {}
        if labels.get("nvidia.com/mig.capable") == "true" and labels.get(STATE) == "pending":
            _apply(hands, node, labels[CONFIG])


def _apply(hands: ControllerTools, node: Object, config: str) -> None:
    profile = config.removeprefix("all-")
    is_known = config == "all-disabled" or profile in INSTANCES

    def change(now: Object) -> Object:
        now["metadata"]["labels"][STATE] = "success" if is_known else "failed"
        return now

    node = hands.edit("nodes", node, change)
    if not is_known:
        return
    cards = int(node["metadata"]["labels"].get("nvidia.com/gpu.count", 0))
    found = {GPU: cards} if config == "all-disabled" else {SLICE + profile: cards * INSTANCES[profile]}
    status = dict(node["status"])
    for name in ("capacity", "allocatable"):
        kept = {key: value for key, value in status[name].items() if key != GPU and not key.startswith(SLICE)}
        status[name] = kept | {key: str(number) for key, number in found.items()}
    hands.set_status("nodes", node, status)
