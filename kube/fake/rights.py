"""Who may do what: RBAC's roles and bindings, as they are stored."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kube.fake.refusals import RequestRefused
from kube.fake.storage import ObjectStorage
from kube.fake.wire import ADMINS, ApiRequest, RequestUser

Object = dict[str, Any]
RBAC = "rbac.authorization.k8s.io"
FOR_ALL_KNOWN = {"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"}
FOR_ANYBODY = {"/healthz", "/livez", "/readyz", "/version"}
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


@dataclass(frozen=True)
class AccessRequest:
    verb: str
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def whole(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class Rights:
    def __init__(self, storage: ObjectStorage) -> None:
        self._storage = storage

    def allows(self, user: RequestUser, asked: AccessRequest) -> tuple[bool, str]:
        """And by what."""
        if ADMINS in user.groups:
            return True, ""
        if asked.resource in FOR_ALL_KNOWN and "system:authenticated" in user.groups:
            return True, ""
        for binding, role in self._roles_of(user, asked.namespace):
            if any(_covers(rule, asked) for rule in role.get("rules") or ()):
                return True, _reason(binding, user)
        return False, ""

    def rules_of(self, user: RequestUser, namespace: str) -> Iterator[Object]:
        """All that bind in this namespace."""
        if ADMINS in user.groups:
            yield {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
        for _, role in self._roles_of(user, namespace):
            yield from role.get("rules") or ()

    def check(self, user: RequestUser, asked: AccessRequest) -> None:
        """Raises RequestRefused."""
        if self.allows(user, asked)[0]:
            return
        where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
        resource = f"{asked.resource}.{asked.group}" if asked.group else asked.resource
        named = f' "{asked.name}"' if asked.name else ""
        details: Object = {"name": asked.name} if asked.name else {}
        if asked.group:
            details["group"] = asked.group
        said = (
            f'{resource}{named} is forbidden: User "{user.name}" cannot {asked.verb} resource '
            f'"{asked.whole}" in API group "{asked.group}" {where}'
        )
        raise RequestRefused(403, "Forbidden", said, details | {"kind": asked.resource})

    def check_path(self, user: RequestUser, request: ApiRequest) -> None:
        """Check a request for something other than objects. Raises RequestRefused."""
        path = request.path
        if ADMINS in user.groups or path in FOR_ANYBODY:
            return
        is_discovery = path.startswith(("/api", "/openapi", "/version"))
        if is_discovery and "system:authenticated" in user.groups:
            return
        said = f'forbidden: User "{user.name}" cannot {request.method.lower()} path "{path}"'
        raise RequestRefused(403, "Forbidden", said, {})

    def _roles_of(self, user: RequestUser, namespace: str) -> Iterator[tuple[Object, Object]]:
        held = self._storage.held()
        roles = {(key.resource, key.namespace, key.name): item for key, item in held}
        for key, binding in held:
            is_local = key.resource == f"rolebindings.{RBAC}" and key.namespace == namespace
            if not (is_local or key.resource == f"clusterrolebindings.{RBAC}"):
                continue
            if not any(_is(user, subject) for subject in binding.get("subjects") or ()):
                continue
            reference = binding["roleRef"]
            place = key.namespace if reference["kind"] == "Role" else ""
            role = roles.get((f"{reference['kind'].lower()}s.{RBAC}", place, reference["name"]))
            if role is not None:
                yield binding, role


def asked_for(request: ApiRequest) -> AccessRequest:
    """Return the access that a request for objects needs."""
    parts = request.path.strip("/").split("/")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    is_old_watch = rest[:1] == ["watch"]
    rest = rest[1:] if is_old_watch else rest
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    elif len(rest) > 1 and rest[0] == "namespaces":
        namespace = rest[1]
    resource, name, subresource = (*rest, "", "", "")[:3]
    if request.method in ("GET", "HEAD"):
        is_watch = is_old_watch or request.query.get("watch", "0") not in ("0", "false")
        verb = "get" if name else "watch" if is_watch else "list"
    elif request.method == "DELETE":
        verb = "delete" if name else "deletecollection"
    else:
        verb = VERBS.get(request.method, request.method.lower())
    return AccessRequest(verb, group, resource, subresource, namespace, name)


def _is(user: RequestUser, subject: Mapping[str, Any]) -> bool:
    kind, name = subject.get("kind"), subject.get("name")
    if kind == "Group":
        return name in user.groups
    if kind == "ServiceAccount":
        return user.name == f"system:serviceaccount:{subject.get('namespace')}:{name}"
    return user.name == name


def _covers(rule: Mapping[str, Any], asked: AccessRequest) -> bool:
    def has(key: str, value: str) -> bool:
        listed = rule.get(key) or ()
        return "*" in listed or value in listed

    if not (has("verbs", asked.verb) and has("apiGroups", asked.group)):
        return False
    resources = rule.get("resources") or ()
    if not (
        "*" in resources
        or asked.whole in resources
        or (asked.subresource and f"*/{asked.subresource}" in resources)
    ):
        return False
    names = rule.get("resourceNames")
    return not names or asked.name in names


def _reason(binding: Object, user: RequestUser) -> str:
    reference, metadata = binding["roleRef"], binding["metadata"]
    place = f"{metadata['name']}/{metadata['namespace']}" if metadata.get("namespace") else metadata["name"]
    return (
        f'RBAC: allowed by {binding["kind"]} "{place}" of {reference["kind"]} "{reference["name"]}" to User '
        f'"{user.name}"'
    )
