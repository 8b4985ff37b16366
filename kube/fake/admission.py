"""What looks at an object between its reading and its storing: namespaces that end, defaults of pods,
priorities, accounts, quotas.
"""

from typing import Any

from kube.fake import quotas
from kube.fake.causes import StatusCause
from kube.fake.kinds import ObjectKind
from kube.fake.refusals import RequestRefused, details_of, forbidden
from kube.fake.storage import ObjectKey, ObjectStorage

Object = dict[str, Any]
NEVER_DELETED = {"default", "kube-system", "kube-public"}
NOT_READY_SECONDS = 300
PRIORITY_CLASSES = "priorityclasses.scheduling.k8s.io"


class Admission:
    def __init__(self, storage: ObjectStorage) -> None:
        self.storage = storage
        self.kinds: dict[str, ObjectKind] = {}
        """By resource."""

    def check_namespace(self, kind: ObjectKind, namespace: str, name: str) -> None:
        """Before something is made in it. Raises RequestRefused."""
        if not kind.is_namespaced:
            return
        found = self.storage.peek(ObjectKey("namespaces", "", namespace))
        if found is None:
            details = {"name": namespace, "kind": "namespaces"}
            raise RequestRefused(404, "NotFound", f'namespaces "{namespace}" not found', details)
        if found["metadata"].get("deletionTimestamp"):
            cause = StatusCause(
                "NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace"
            )
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise forbidden(kind, name, why, [cause])

    def check_deletion(self, kind: ObjectKind, name: str) -> None:
        if kind.resource == "namespaces" and name in NEVER_DELETED:
            details = details_of(kind, name)
            said = f'namespaces "{name}" is forbidden: this namespace may not be deleted'
            raise RequestRefused(403, "Forbidden", said, details)

    def complete(self, kind: ObjectKind, item: Object, *, is_new: bool) -> None:
        """Put in what admission puts in."""
        if kind.kind == "Namespace" and is_new:
            _namespace(item)
        elif kind.kind == "Pod" and is_new:
            _pod(item)
            self._prioritise(kind, item)
            self._check_account(kind, item)
        elif kind.kind == "Service" and is_new:
            self._service(item)
        elif kind.kind == "Node" and is_new:
            _node(item)
        elif kind.kind == "Job" and is_new:
            _job(item)

    def _prioritise(self, kind: ObjectKind, item: Object) -> None:
        """Set the priority by its PriorityClass, or the default one. Raises RequestRefused."""
        spec = item["spec"]
        classes = [one for key, one in self.storage.held() if key.resource == PRIORITY_CLASSES]
        name = spec.get("priorityClassName")
        if not name:
            everybody = [one for one in classes if one.get("globalDefault")]
            found = max(everybody, key=lambda one: one["value"], default=None)
            if found is not None:
                spec["priorityClassName"] = found["metadata"]["name"]
        else:
            found = next((one for one in classes if one["metadata"]["name"] == name), None)
            if found is None:
                raise forbidden(kind, _asked_name(item), f"no PriorityClass with name {name} was found")
        value = found["value"] if found else 0
        if spec.get("priority") not in (None, value):
            why = f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            why += f"priority admission controller computed {value} from the given PriorityClass name"
            raise forbidden(kind, _asked_name(item), why)
        spec["priority"] = value
        default = (found or {}).get("preemptionPolicy") or "PreemptLowerPriority"
        spec.setdefault("preemptionPolicy", default)

    def _check_account(self, kind: ObjectKind, item: Object) -> None:
        """Each namespace is about to have `default`. Raises RequestRefused."""
        name, namespace = item["spec"]["serviceAccountName"], item["metadata"]["namespace"]
        if name != "default" and self.storage.peek(ObjectKey("serviceaccounts", namespace, name)) is None:
            place = f"{namespace}/{name}"
            why = f'error looking up service account {place}: serviceaccount "{name}" not found'
            raise forbidden(kind, _asked_name(item), why)

    def check(self, kind: ObjectKind, item: Object, old: Object | None) -> None:
        """Raises RequestRefused."""
        counted = self.kinds.get(quotas.QUOTAS)
        if old is None and counted is not None:
            quotas.check(self.storage, counted, self.kinds, kind, item)

    def _service(self, item: Object) -> None:
        spec = item["spec"]
        if spec.get("type") == "ExternalName" or spec.get("clusterIP"):
            return
        used = {
            one["spec"].get("clusterIP") for key, one in self.storage.held() if key.resource == "services"
        }
        number = next(n for n in range(10, 60_000) if f"10.96.{n // 250}.{n % 250 + 1}" not in used)
        address = f"10.96.{number // 250}.{number % 250 + 1}"
        spec |= {"clusterIP": address, "clusterIPs": [address], "ipFamilies": ["IPv4"]}
        spec["ipFamilyPolicy"] = "SingleStack"


def _asked_name(item: Object) -> str:
    """Before one was made of a prefix."""
    metadata = item["metadata"]
    return str(metadata.get("generateName") or metadata["name"])


def _namespace(item: Object) -> None:
    item["spec"]["finalizers"] = ["kubernetes"]
    item["status"] = {"phase": "Active"}


def _pod(item: Object) -> None:
    spec = item["spec"]
    account = spec.get("serviceAccountName") or "default"
    spec |= {"serviceAccountName": account, "serviceAccount": account}
    tolerations = spec.setdefault("tolerations", [])
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(
            one.get("key") in (key, None) and one.get("effect") in ("NoExecute", None) for one in tolerations
        ):
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": NOT_READY_SECONDS,
                }
            )
    item["status"] = {"phase": "Pending", "qosClass": _quality(spec)}


def _quality(spec: Object) -> str:
    """Quality of service class, as the kubelet evicts by it."""
    both = [container.get("resources") or {} for container in spec.get("containers") or ()]
    limits = [one.get("limits") or {} for one in both]
    requests = [one.get("requests") or {} for one in both]
    ordinary = ("cpu", "memory")
    if not any(name in one for one in limits + requests for name in ordinary):
        return "BestEffort"
    if all(
        name in limit and limit[name] == request.get(name, limit[name])
        for limit, request in zip(limits, requests, strict=True)
        for name in ordinary
    ):
        return "Guaranteed"
    return "Burstable"


def _job(item: Object) -> None:
    """Its pods are found by its uid."""
    name, uid = item["metadata"]["name"], item["metadata"]["uid"]
    labels = {"batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name}
    labels |= {"controller-uid": uid, "job-name": name}
    spec = item["spec"]
    if not spec.get("manualSelector"):
        selector = spec.setdefault("selector", {})
        mine = {"batch.kubernetes.io/controller-uid": uid}
        selector["matchLabels"] = (selector.get("matchLabels") or {}) | mine
    template = spec["template"].setdefault("metadata", {})
    template["labels"] = (template.get("labels") or {}) | labels
    item["metadata"]["labels"] = (item["metadata"].get("labels") or {}) | labels


def _node(item: Object) -> None:
    taints = item["spec"].setdefault("taints", [])
    if not any(one.get("key") == "node.kubernetes.io/not-ready" for one in taints):
        taints.append({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"})
