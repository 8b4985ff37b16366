"""Claims of pods for devices: made from templates, allocated with the pod's place, given back with its end.

After the resource claim controller and the scheduler's plugin of 1.36. Assumed, not recorded.
"""

from collections.abc import Iterable
from typing import Any

from kube.fake.controllers.controller_tools import ControllerTools, Object, reference_to
from kube.fake.devices import DevicePools, results_of

CLAIMS, TEMPLATES = "resourceclaims.resource.k8s.io", "resourceclaimtemplates.resource.k8s.io"
SLICES, CLASSES = "resourceslices.resource.k8s.io", "deviceclasses.resource.k8s.io"
CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
EXTENDED = "resource.kubernetes.io/extended-resource-claim"
FINALIZER = "resource.kubernetes.io/delete-protection"
CANNOT_ALLOCATE = "cannot allocate all claims"


def step(hands: ControllerTools) -> None:
    """Make claims of templates, and give back those whose pods have ended."""
    if not hands.has(CLAIMS):
        return
    pods = {pod["metadata"]["uid"]: pod for pod in hands.look("pods")}
    for pod in pods.values():
        if not _is_done(pod) and "deletionTimestamp" not in pod["metadata"]:
            _make_claims(hands, pod)
    for claim in hands.look(CLAIMS):
        _release(hands, claim, pods)


def _make_claims(hands: ControllerTools, pod: Object) -> None:
    made = {one["name"]: one for one in pod["status"].get("resourceClaimStatuses") or ()}
    namespace, before = pod["metadata"]["namespace"], len(made)
    for wanted in pod["spec"].get("resourceClaims") or ():
        name, template_name = wanted["name"], wanted.get("resourceClaimTemplateName")
        template = hands.get(TEMPLATES, namespace, template_name) if template_name else None
        if name in made or template is None:
            continue
        metadata = template["spec"].get("metadata") or {}
        claim = hands.create(
            CLAIMS,
            {
                "metadata": {
                    "generateName": f"{pod['metadata']['name']}-{name}-",
                    "namespace": namespace,
                    "labels": metadata.get("labels") or {},
                    "annotations": (metadata.get("annotations") or {}) | {CLAIM_NAME: name},
                    "ownerReferences": [reference_to({"apiVersion": "v1", "kind": "Pod"} | pod)],
                },
                "spec": template["spec"]["spec"],
            },
        )
        made[name] = {"name": name, "resourceClaimName": claim["metadata"]["name"]}
    if len(made) > before:
        hands.set_status("pods", pod, pod["status"] | {"resourceClaimStatuses": list(made.values())})


def _release(hands: ControllerTools, claim: Object, pods: dict[str, Object]) -> None:
    status = claim.get("status") or {}
    users = status.get("reservedFor") or []
    kept = [one for one in users if one["uid"] in pods and not _is_done(pods[one["uid"]])]
    if len(kept) < len(users):
        hands.set_status(CLAIMS, claim, (status | {"reservedFor": kept}) if kept else {})
        if not kept:
            _finalize(hands, claim, [])
    owners = [one["uid"] for one in claim["metadata"].get("ownerReferences") or ()]
    if owners and all(uid in pods and _is_done(pods[uid]) for uid in owners):
        hands.delete(CLAIMS, claim)


def _finalize(hands: ControllerTools, claim: Object, finalizers: list[str]) -> None:
    def change(now: Object) -> Object:
        now["metadata"]["finalizers"] = finalizers
        return now

    hands.edit(CLAIMS, claim, change)


def _is_done(pod: Object) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed")


class ClaimPlacing:
    """The devices as the scheduler sees them in one turn: which are free, and which claim has which."""

    def __init__(self, hands: ControllerTools) -> None:
        self._hands = hands
        is_there = hands.has(CLAIMS)
        self._pools = DevicePools(*(hands.look(one) if is_there else () for one in (SLICES, CLASSES, CLAIMS)))
        self._extended = {
            spec["extendedResourceName"]: name
            for name, spec in self._pools.classes.items()
            if spec.get("extendedResourceName")
        }

    def waits(self, pod: Object) -> bool:
        """Whether a claim that it names is not there yet: it is not tried before."""
        named = pod["spec"].get("resourceClaims") or ()
        return len(self._claims(pod)) < len(named)

    def by_devices(self, resource: str, node: Object) -> bool:
        """Whether an extended resource comes as devices of a class there, which no device plugin offers."""
        return resource in self._extended and resource not in (node["status"].get("allocatable") or {})

    def why_not(self, pod: Object, node: Object) -> str:
        found = self._allocated(pod, node)
        if found is None:
            return CANNOT_ALLOCATE
        self._pools.give_back(found)
        return ""

    def take(self, pod: Object, node: Object) -> None:
        """Write allocations and who uses them, before the pod is bound."""
        extended = self._extended_claim(pod, node)
        claims = self._claims(pod)
        if extended is not None:
            claims.append(self._hands.create(CLAIMS, extended))
        for claim in claims:
            status = claim.get("status") or {}
            if not status.get("allocation"):
                results = self._pools.allocate(claim["spec"], node["metadata"]["name"]) or []
                field = {"key": "metadata.name", "operator": "In", "values": [node["metadata"]["name"]]}
                selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
                status |= {"allocation": {"devices": {"results": results}, "nodeSelector": selector}}
                _finalize(self._hands, claim, [FINALIZER])
            user = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
            status["reservedFor"] = [*(status.get("reservedFor") or ()), user]
            self._hands.set_status(CLAIMS, claim, status)
        if extended is not None:
            self._say_extended(pod, claims[-1])

    def _allocated(self, pod: Object, node: Object) -> list[Object] | None:
        """Allocate what is not yet; None: the machine has not all of it."""
        name = node["metadata"]["name"]
        found: list[Object] = []
        extended = self._extended_claim(pod, node)
        for claim in [*self._claims(pod), *([extended] if extended else [])]:
            if results_of(claim):
                terms = claim["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"]
                results: list[Object] | None = [] if name in terms[0]["matchFields"][0]["values"] else None
            else:
                results = self._pools.allocate(claim["spec"], name)
            if results is None:
                self._pools.give_back(found)
                return None
            found += results
        return found

    def _claims(self, pod: Object) -> list[Object]:
        made = {
            one["name"]: one.get("resourceClaimName")
            for one in pod["status"].get("resourceClaimStatuses") or ()
        }
        namespace = pod["metadata"]["namespace"]
        names = [
            one.get("resourceClaimName") or made.get(one["name"])
            for one in pod["spec"].get("resourceClaims") or ()
        ]
        found = (self._hands.get(CLAIMS, namespace, name) for name in names if name)
        return [one for one in found if one is not None]

    def _extended_claim(self, pod: Object, node: Object) -> Object | None:
        requests = [
            {
                "name": f"container-{place}-request-{number}",
                "exactly": {"deviceClassName": self._extended[resource], "count": int(amount)},
            }
            for place, container in enumerate(pod["spec"]["containers"])
            for number, (resource, amount) in enumerate(_requests(container))
            if self.by_devices(resource, node)
        ]
        if not requests:
            return None
        return {
            "metadata": {
                "generateName": f"{pod['metadata']['name']}-extended-resources-",
                "namespace": pod["metadata"]["namespace"],
                "annotations": {EXTENDED: "true"},
                "ownerReferences": [reference_to({"apiVersion": "v1", "kind": "Pod"} | pod)],
            },
            "spec": {"devices": {"requests": requests}},
        }

    def _say_extended(self, pod: Object, claim: Object) -> None:
        current = self._hands.get("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
        if current is not None:
            mappings = [
                {
                    "containerName": pod["spec"]["containers"][int(one["name"].split("-")[1])]["name"],
                    "requestName": one["name"],
                    "resourceName": next(
                        name
                        for name, class_name in self._extended.items()
                        if class_name == one["exactly"]["deviceClassName"]
                    ),
                }
                for one in claim["spec"]["devices"]["requests"]
            ]
            said = {"requestMappings": mappings, "resourceClaimName": claim["metadata"]["name"]}
            self._hands.set_status("pods", current, current["status"] | {"extendedResourceClaimStatus": said})


def _requests(container: Object) -> Iterable[tuple[str, Any]]:
    return sorted(((container.get("resources") or {}).get("requests") or {}).items())
