"""The eviction subresource: a deletion that a disruption budget may forbid."""

import json
from collections.abc import Mapping
from typing import Any

from kube.fake.clock import SimulatedClock
from kube.fake.deleting import Deleter, check_preconditions
from kube.fake.kinds import ObjectKind
from kube.fake.refusals import RequestRefused, bad_request, internal, not_found
from kube.fake.selectors import matches_labels
from kube.fake.storage import ObjectStorage
from kube.fake.wire import ApiRequest, ApiResponse, RequestTarget

Object = dict[str, Any]
MANY = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
UNOBSERVED_RETRY_SECONDS = 10


class Evictor:
    def __init__(self, storage: ObjectStorage, clock: SimulatedClock, deleter: Deleter) -> None:
        self.storage = storage
        self.clock = clock
        self.deleter = deleter

    def post(self, target: RequestTarget, request: ApiRequest, budgets: ObjectKind) -> ApiResponse:
        """Raises RequestRefused."""
        body: Object = json.loads(request.body or b"{}")
        if (body.get("metadata") or {}).get("name") != target.name:
            raise bad_request("name in URL does not match name in Eviction object")
        options = body.get("deleteOptions") or {}
        is_dry_run = request.is_dry_run or "All" in (options.get("dryRun") or ())
        with self.storage.lock:
            pod = self.storage.get(target.kind, target.namespace, target.name)
            if pod is None:
                raise not_found(target.kind, target.name)
            if not self._is_free(pod):
                self._spend(pod, budgets, is_dry_run=is_dry_run)
            # Only now: who names the wrong pod has spent the budget of the right one.
            check_preconditions(target.kind, pod, options.get("preconditions") or {})
            if not is_dry_run:
                self._mark(target.kind, pod)
                self.deleter.delete(
                    target.kind,
                    target.namespace,
                    target.name,
                    {key: one for key, one in options.items() if key != "preconditions"},
                )
        return ApiResponse(
            201, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
        )

    def _is_free(self, pod: Object) -> bool:
        """Tell whether the pod does not run, or ends already, so that its eviction disrupts nobody."""
        phase = pod["status"].get("phase")
        return phase in ("Pending", "Succeeded", "Failed") or "deletionTimestamp" in pod["metadata"]

    def _spend(self, pod: Object, budgets: ObjectKind, *, is_dry_run: bool) -> None:
        """Charge the eviction to the pod's budget. Raises RequestRefused."""
        metadata = pod["metadata"]
        found = [
            one
            for one in self.storage.items(budgets, metadata["namespace"])
            if matches_labels(one["spec"].get("selector"), metadata.get("labels") or {})
        ]
        if len(found) > 1:
            raise internal(MANY)
        if not found:
            return
        budget = found[0]
        status, name = budget["status"], budget["metadata"]["name"]
        if not is_ready(pod):
            always = budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
            healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
            if always or (healthy >= desired and desired > 0):
                return
        if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
            raise refused(
                f"The disruption budget {name} is still being processed by the server.", is_waiting=True
            )
        if status.get("disruptionsAllowed", 0) <= 0:
            healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
            why = f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
            if healthy > desired:
                why = f"The disruption budget {name} does not allow evicting pods currently"
            raise refused(why)
        if is_dry_run:
            return
        status["disruptionsAllowed"] -= 1
        status.setdefault("disruptedPods", {})[metadata["name"]] = self.clock.stamp()
        if not status["disruptionsAllowed"]:
            for condition in status.get("conditions") or ():
                if condition["type"] == "DisruptionAllowed":
                    condition |= {"status": "False", "reason": "InsufficientPods"}
                    condition["lastTransitionTime"] = self.clock.stamp()
        self.storage.put(budgets, budget)

    def _mark(self, kind: ObjectKind, pod: Object) -> None:
        current = self.storage.get(kind, pod["metadata"]["namespace"], pod["metadata"]["name"])
        if current is None or "deletionTimestamp" in current["metadata"]:
            return
        conditions = current["status"].setdefault("conditions", [])
        conditions.append(
            {
                "type": "DisruptionTarget",
                "status": "True",
                "lastTransitionTime": self.clock.stamp(),
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
            }
        )
        self.storage.put(kind, current)


def is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def refused(why: str, *, is_waiting: bool = False) -> RequestRefused:
    details: Object = {"causes": [{"reason": "DisruptionBudget", "message": why}]}
    headers = {}
    if is_waiting:
        details["retryAfterSeconds"] = UNOBSERVED_RETRY_SECONDS
        headers["retry-after"] = str(UNOBSERVED_RETRY_SECONDS)
    return RequestRefused(429, "TooManyRequests", REFUSED, details, headers)
