"""`python -m tests.kube.builtin_types`: writes kube/fake/builtin_types.json from the models of the
`kubernetes` package.

The fake checks bodies against it, as the API server checks them against its own types, without importing
the package.
"""

import json
import re
from pathlib import Path

from kubernetes.client import models

KEPT = Path(__file__).resolve().parent.parent.parent / "kube/fake/builtin_types.json"
ROOTS = (
    "ResourceV1ResourceClaim",
    "V1ClusterRole",
    "V1ClusterRoleBinding",
    "V1ConfigMap",
    "V1DaemonSet",
    "V1Deployment",
    "V1DeviceClass",
    "V1Ingress",
    "V1Job",
    "V1Lease",
    "V1LimitRange",
    "V1Namespace",
    "V1NetworkPolicy",
    "V1Node",
    "V1PersistentVolumeClaim",
    "V1Pod",
    "V1PodDisruptionBudget",
    "V1PriorityClass",
    "V1ReplicaSet",
    "V1ResourceClaimTemplate",
    "V1ResourceQuota",
    "V1ResourceSlice",
    "V1Role",
    "V1RoleBinding",
    "V1Scale",
    "V1Secret",
    "V1SelfSubjectAccessReview",
    "V1Service",
    "V1ServiceAccount",
    "V1StatefulSet",
    "V2HorizontalPodAutoscaler",
    "CoreV1Event",
)
WORDS = {"str": "string", "int": "integer", "bool": "boolean", "float": "number", "datetime": "time"}


def types() -> dict[str, dict[str, str]]:
    """Return the fields of every type that the roots need: field -> type, `[]T` a list and `{}T` a map of
    T.
    """
    found: dict[str, dict[str, str]] = {}

    def visit(name: str) -> None:
        model = getattr(models, name, None)
        if name in found or not hasattr(model, "attribute_map"):
            return
        fields = found[name] = {
            model.attribute_map[attribute]: written(kind) for attribute, kind in model.openapi_types.items()
        }
        for kind in fields.values():
            visit(kind.removeprefix("[]").removeprefix("{}"))

    for root in ROOTS:
        visit(root)
    return found


def written(kind: str) -> str:
    if inside := re.fullmatch(r"list\[(.*)\]", kind):
        return "[]" + written(inside[1])
    if inside := re.fullmatch(r"dict(?:\[str, |\(str, )(.*)[\])]", kind):
        return "{}" + written(inside[1])
    return WORDS.get(kind, kind)


def text() -> str:
    lines = ",\n".join(f'"{name}":{json.dumps(fields)}' for name, fields in sorted(types().items()))
    return f"{{\n{lines}\n}}\n"


if __name__ == "__main__":
    KEPT.write_text(text())
