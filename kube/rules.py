"""The rules that an API server lists for the account that asks, as in a SelfSubjectRulesReview."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kube.resources import Resource


@dataclass(frozen=True, slots=True)
class Rules:
    """The rights of an account in one namespace, and in the whole cluster.

    A server may list too few of them (another authorizer than RBAC), never too many.
    """

    listed: Sequence[Mapping[str, Any]] = ()

    def allow(self, verb: str, resource: Resource, *, name: str = "", subresource: str = "") -> bool:
        kind = f"{resource.plural}/{subresource}" if subresource else resource.plural
        return any(
            _has(rule, "verbs", verb)
            and _has(rule, "apiGroups", resource.group)
            and _has(rule, "resources", kind)
            and (not rule.get("resourceNames") or name in rule["resourceNames"])
            for rule in self.listed
        )


def _has(rule: Mapping[str, Any], key: str, value: str) -> bool:
    values = rule.get(key) or ()
    return "*" in values or value in values
