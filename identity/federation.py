"""Whether a CI system's token is one that a credential means: pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from identity.patterns import fixed_part, matches

GITHUB, GITLAB = "https://token.actions.githubusercontent.com", "https://gitlab.com"
SHARED = frozenset({GITHUB, GITLAB})
"""Issuers whose tokens anybody in the world can have: a credential must name an owner."""
OWNERS = frozenset(
    {
        "repository",
        "repository_id",
        "repository_owner",
        "repository_owner_id",
        "project_path",
        "project_id",
        "namespace_path",
        "namespace_id",
    }
)


class TokenRequirements(NamedTuple):
    """The demands of a credential on tokens."""

    audience: str
    subject: str
    claims: Mapping[str, str]


def mismatch(wanted: TokenRequirements, told: Mapping[str, Any]) -> str:
    """Why the claims do not fit, for the audit record; empty: they do."""
    audience = told.get("aud")
    if wanted.audience not in (audience if isinstance(audience, list) else [audience]):
        return f"its audience is {audience!r}"
    if wanted.subject and not matches(wanted.subject, str(told.get("sub", ""))):
        return f"its subject is {told.get('sub')!r}"
    for name, pattern in wanted.claims.items():
        value = told.get(name)
        if isinstance(value, bool):
            value = str(value).lower()
        if not isinstance(value, str | int) or not matches(pattern, str(value)):
            return f"its claim {name} is {value!r}"
    return ""


def names_an_owner(issuer: str, wanted: TokenRequirements) -> bool:
    """Whether only tokens of one owner fit, where an issuer serves everybody."""
    if issuer not in SHARED:
        return bool(wanted.subject or wanted.claims)
    by_claim = any(name in OWNERS and _names_one(name, pattern) for name, pattern in wanted.claims.items())
    head = "repo:" if issuer == GITHUB else "project_path:"
    fixed = fixed_part(wanted.subject)
    owner, slash, _rest = fixed.removeprefix(head).partition("/")
    return by_claim or (fixed.startswith(head) and bool(owner and slash))


def _names_one(name: str, pattern: str) -> bool:
    """`acme`, `acme/*`, but not `acme*`: that fits the namespace `acme-evil`, too."""
    if "*" not in pattern:
        return bool(pattern)
    owner, slash, _rest = fixed_part(pattern).partition("/")
    return name in ("repository", "project_path", "namespace_path") and bool(owner and slash)
