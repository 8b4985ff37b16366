"""Every write of people, teams, roles and tokens, each with its audit row."""

from accounts.services.people import (
    change_user,
    create_user,
    set_password,
)
from accounts.services.rights import require, require_everywhere
from accounts.services.teams import change_team, create_team, delete_team, remove_member, set_role
from accounts.services.tokens import IssuedToken, create_token, revoke_token, use_token

__all__ = [
    "IssuedToken",
    "change_team",
    "change_user",
    "create_team",
    "create_token",
    "create_user",
    "delete_team",
    "remove_member",
    "require",
    "require_everywhere",
    "revoke_token",
    "set_password",
    "set_role",
    "use_token",
]
