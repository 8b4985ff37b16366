"""Every write of people, teams, roles, tokens and webhooks, each with its audit row."""

from accounts.services.people import (
    change_user,
    create_machine,
    create_user,
    set_password,
)
from accounts.services.rights import require, require_everywhere, require_for_owner
from accounts.services.teams import change_team, create_team, delete_team, remove_member, set_role
from accounts.services.tokens import IssuedToken, create_token, revoke_token, use_token
from accounts.services.webhooks import (
    IssuedWebhook,
    announce,
    change_webhook,
    create_webhook,
    delete_webhook,
    replay_delivery,
    rotate_webhook_secret,
    send_test,
)

__all__ = [
    "IssuedToken",
    "IssuedWebhook",
    "announce",
    "change_team",
    "change_user",
    "change_webhook",
    "create_machine",
    "create_team",
    "create_token",
    "create_user",
    "create_webhook",
    "delete_team",
    "delete_webhook",
    "remove_member",
    "replay_delivery",
    "require",
    "require_everywhere",
    "require_for_owner",
    "revoke_token",
    "rotate_webhook_secret",
    "send_test",
    "set_password",
    "set_role",
    "use_token",
]
