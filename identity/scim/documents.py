"""SCIM 2.0 on the wire (RFC 7643, 7644), as Okta and Microsoft Entra send it: pure.

Entra spells operations `Add`, booleans `"False"` and addresses values by filters in paths
(`emails[type eq "work"].value`); Okta sends a map without a path. What Slipway does not keep is ignored.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from common.errors import Invalid

USER = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group"
PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
LIST = "urn:ietf:params:scim:api:messages:2.0:ListResponse"
ERROR = "urn:ietf:params:scim:api:messages:2.0:Error"
MAX_OPERATIONS = 1_000
_FILTER = re.compile(r'\s*([A-Za-z][\w.:]*)\s+eq\s+"((?:[^"\\]|\\.)*)"\s*', re.IGNORECASE)
_EMAIL_PATH = re.compile(r'emails\[type eq "\w+"\](\.value)?', re.IGNORECASE)
_MEMBER_PATH = re.compile(r'members\[value eq "([^"]*)"\]', re.IGNORECASE)
_ATTRIBUTES = {
    "username": "username",
    "externalid": "external_id",
    "active": "is_active",
    "name.givenname": "first_name",
    "name.familyname": "last_name",
    "displayname": "display_name",
    "emails": "email",
}


class BadFilter(Invalid):
    """A filter that is not supported."""


class BadDocument(Invalid):
    """The document is no resource or change of one."""


def parsed_filter(text: str, known: Iterable[str]) -> tuple[str, str] | None:
    """Attribute (in lower case) and value of `attribute eq "value"`; None for no filter. Raises BadFilter."""
    if not text.strip():
        return None
    found = _FILTER.fullmatch(text)
    if found is None or found[1].lower() not in known:
        raise BadFilter(f'Only filters such as {" or ".join(known)} eq "value" are supported.')
    return found[1].lower(), re.sub(r"\\(.)", r"\1", found[2])


def truth(value: Any) -> bool:
    """`true`, `"True"`, `"False"`. Raises BadDocument."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise BadDocument("`active` must be true or false.")


def user_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """The columns that a whole User document sets. Raises BadDocument."""
    changes: dict[str, Any] = {}
    for name, value in document.items():
        _set_user(changes, name, value)
    if not changes.get("username"):
        raise BadDocument("`userName` is required.")
    return changes


def user_changes(document: Mapping[str, Any]) -> dict[str, Any]:
    """The columns that a PATCH sets. Raises BadDocument."""
    changes: dict[str, Any] = {}
    for operation, path, value in _operations(document):
        if operation == "remove":
            value = "" if path.lower() != "active" else False
        if path:
            _set_user(changes, path, value)
        elif isinstance(value, Mapping):
            for name, one in value.items():
                _set_user(changes, name, one)
        else:
            raise BadDocument("An operation without a path needs a map of attributes.")
    return changes


def _set_user(changes: dict[str, Any], name: str, value: Any) -> None:
    if name.lower() == "name" and isinstance(value, Mapping):
        for part, one in value.items():
            _set_user(changes, f"name.{part}", one)
        return
    column = _ATTRIBUTES.get("emails" if _EMAIL_PATH.fullmatch(name) else name.lower())
    if column is None:
        return
    if column == "is_active":
        changes[column] = truth(value)
    elif column == "email":
        changes[column] = _email(value)
    elif value is None or isinstance(value, str):
        changes[column] = (value or "").strip()
    else:
        raise BadDocument(f"`{name}` must be a text.")


def _email(value: Any) -> str:
    if isinstance(value, str):
        return value
    many = [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
    ordered = sorted(many, key=lambda one: (not one.get("primary"), one.get("type") != "work"))
    return str(ordered[0].get("value", "")) if ordered else ""


@dataclass
class GroupChange:
    name: str | None = None
    external_id: str | None = None
    members: list[str] | None = None
    """In place of those it has."""
    add: list[str] = field(default_factory=list)
    remove: list[str] = field(default_factory=list)


def group_of(document: Mapping[str, Any]) -> GroupChange:
    """A whole Group document. Raises BadDocument."""
    name = document.get("displayName")
    if not isinstance(name, str) or not name.strip():
        raise BadDocument("`displayName` is required.")
    return GroupChange(
        name=name.strip(),
        external_id=str(document.get("externalId") or ""),
        members=_members(document.get("members") or []),
    )


def group_changes(document: Mapping[str, Any]) -> GroupChange:
    """A PATCH. Raises BadDocument."""
    change = GroupChange()
    for operation, path, value in _operations(document):
        found = _MEMBER_PATH.fullmatch(path)
        if not path and isinstance(value, Mapping):
            for name, one in value.items():
                _set_group(change, operation, name, one)
        elif found is not None and operation == "remove":
            change.remove.append(found[1])
        else:
            _set_group(change, operation, path, value)
    return change


def _set_group(change: GroupChange, operation: str, name: str, value: Any) -> None:
    match name.lower(), operation:
        case "displayname", _:
            change.name = str(value)
        case "externalid", _:
            change.external_id = str(value or "")
        case "members", "add":
            change.add += _members(value)
        case "members", "replace":
            change.members = _members(value)
        case "members", "remove":
            if value:
                change.remove += _members(value)
            else:
                change.members = []


def _members(value: Any) -> list[str]:
    many = value if isinstance(value, list) else [value]
    if not all(isinstance(one, Mapping) and one.get("value") for one in many):
        raise BadDocument("Each of `members` needs a `value`: the id of a user.")
    return [str(one["value"]) for one in many]


def _operations(document: Mapping[str, Any]) -> Sequence[tuple[str, str, Any]]:
    sent = document.get("Operations")
    if not isinstance(sent, list) or len(sent) > MAX_OPERATIONS:
        raise BadDocument(f"`Operations` must be a list of at most {MAX_OPERATIONS}.")
    found = []
    for one in sent:
        operation = str(one.get("op", "")).lower() if isinstance(one, Mapping) else ""
        if operation not in ("add", "replace", "remove"):
            raise BadDocument("An operation must be add, replace or remove.")
        found.append((operation, str(one.get("path") or ""), one.get("value")))
    return found
