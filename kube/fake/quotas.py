"""ResourceQuota: what a namespace may hold, counted when something is made."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from kube.fake.defaults import canonical, quantity
from kube.fake.kinds import ObjectKind
from kube.fake.refusals import forbidden
from kube.fake.storage import ObjectStorage

Object = dict[str, Any]
QUOTAS = "resourcequotas"
COUNTED = {"pods", "services", "configmaps", "secrets", "persistentvolumeclaims"}


def usage_of(kind: ObjectKind, item: Object) -> dict[str, Decimal]:
    """Return the use by the names that quotas have."""
    used = {f"count/{kind.resource}": Decimal(1)}
    if kind.resource in COUNTED:
        used[kind.resource] = Decimal(1)
    if kind.kind != "Pod" or item["status"].get("phase") in ("Succeeded", "Failed"):
        return used if kind.kind != "Pod" else {}
    for container in item["spec"].get("containers") or ():
        resources = container.get("resources") or {}
        for of in ("requests", "limits"):
            for name, value in (resources.get(of) or {}).items():
                amount = quantity(value) or Decimal(0)
                used[f"{of}.{name}"] = used.get(f"{of}.{name}", Decimal(0)) + amount
                if of == "requests" and name in ("cpu", "memory"):
                    used[name] = used.get(name, Decimal(0)) + amount
    return used


def check(
    storage: ObjectStorage,
    quotas: ObjectKind,
    kinds: Mapping[str, ObjectKind],
    kind: ObjectKind,
    item: Object,
) -> None:
    """Before something new is stored. Raises RequestRefused."""
    namespace = item["metadata"].get("namespace", "")
    wanted = usage_of(kind, item)
    for quota in storage.items(quotas, namespace) if namespace else ():
        hard = quota["spec"].get("hard") or {}
        used = used_in(storage, kinds, namespace, set(hard))
        over = [
            name
            for name in sorted(hard)
            if name in wanted and used.get(name, Decimal(0)) + wanted[name] > (quantity(hard[name]) or 0)
        ]
        if over:
            said = [
                f"{title}: " + ",".join(f"{name}={canonical(values.get(name, 0))}" for name in over)
                for title, values in (("requested", wanted), ("used", used), ("limited", hard))
            ]
            why = f"exceeded quota: {quota['metadata']['name']}, {', '.join(said)}"
            raise forbidden(kind, item["metadata"]["name"], why)


def used_in(
    storage: ObjectStorage, kinds: Mapping[str, ObjectKind], namespace: str, names: set[str]
) -> dict[str, Decimal]:
    total: dict[str, Decimal] = {}
    for key, item in storage.held():
        if key.namespace != namespace or key.resource not in kinds:
            continue
        for name, amount in usage_of(kinds[key.resource], item).items():
            if name in names:
                total[name] = total.get(name, Decimal(0)) + amount
    return total
