from collections.abc import Mapping
from typing import Any

from django.utils import timezone

from accounts.states import Right
from common.models import Intent
from hubs.models import HubSource
from tests.accounts.rights_matrix.scene import Access, Route, Scene, new_name
from tests.cast import PASSWORD


def _team(scene: Scene) -> Mapping[str, Any]:
    return {"team": scene.team.name}


def _member(scene: Scene) -> Mapping[str, Any]:
    return {"team": scene.team.name, "username": scene.member.username}


def _person(scene: Scene) -> Mapping[str, Any]:
    return {"username": scene.member.username}


def _token(scene: Scene) -> Mapping[str, Any]:
    return {"id": scene.own_token.pk}


def _webhook(scene: Scene) -> Mapping[str, Any]:
    return {"id": scene.webhook.pk}


def _delivery(scene: Scene) -> Mapping[str, Any]:
    return {"webhook": scene.webhook.pk, "id": scene.delivery.pk}


def _stuck(scene: Scene) -> Mapping[str, Any]:
    now = timezone.now()
    HubSource.objects.filter(pk=scene.hub_source.pk).update(stuck_at=now, failed_since=now)
    return {"kind": "hubs.hubsource", "id": scene.hub_source.pk}


def _in_doubt(scene: Scene) -> Mapping[str, Any]:
    where = _stuck(scene)
    Intent.objects.create(
        op_key="order",
        kind=where["kind"],
        object_id=str(where["id"]),
        state=Intent.State.UNKNOWN,
        fence=1,
        intended_at=timezone.now(),
    )
    return where


def _of_webhook(scene: Scene) -> Mapping[str, Any]:
    return {"webhook": scene.webhook.pk}


ROUTES = [
    Route("GET", "audit/", Right.AUDIT_READ, owned=False),
    Route("GET", "audit/verify/", Right.AUDIT_READ, owned=False),
    Route("GET", "me/", Access.SIGNED_IN, owned=False),
    Route("GET", "people/", Access.SIGNED_IN, owned=False),
    Route(
        "POST",
        "people/",
        Right.PEOPLE_ADMIN,
        body=lambda scene: {
            "username": new_name(),
            "password": PASSWORD,
            "team": scene.team.name,
            "role": "viewer",
        },
        status=201,
        owned=False,
    ),
    Route("GET", "people/{username}/", Right.READ, fill=_person),
    Route(
        "PATCH",
        "people/{username}/",
        Access.ADMINISTRATOR,
        fill=_person,
        body=lambda scene: {"email": "new@example.org"},
    ),
    Route(
        "POST",
        "people/{username}/password/",
        Access.ADMINISTRATOR,
        fill=_person,
        body=lambda scene: {"password": "a new good phrase"},
        status=204,
    ),
    Route("GET", "teams/", Access.SIGNED_IN, owned=False),
    Route(
        "POST",
        "teams/",
        Access.ADMINISTRATOR,
        body=lambda scene: {"name": new_name()},
        status=201,
        owned=False,
    ),
    Route("GET", "teams/{team}/", Right.READ, fill=_team),
    Route("PATCH", "teams/{team}/", Right.PEOPLE_ADMIN, fill=_team, body=lambda scene: {"description": "x"}),
    Route("DELETE", "teams/{team}/", Access.ADMINISTRATOR, fill=_team, status=204),
    Route("GET", "teams/{team}/members/", Right.READ, fill=_team),
    Route(
        "POST",
        "teams/{team}/members/",
        Right.PEOPLE_ADMIN,
        fill=_team,
        body=lambda scene: {"username": scene.outsider.username, "role": "viewer"},
        status=201,
    ),
    Route("GET", "teams/{team}/members/{username}/", Right.READ, fill=_member),
    Route(
        "PUT",
        "teams/{team}/members/{username}/",
        Right.PEOPLE_ADMIN,
        fill=_member,
        body=lambda scene: {"role": "developer"},
    ),
    Route("DELETE", "teams/{team}/members/{username}/", Right.PEOPLE_ADMIN, fill=_member, status=204),
    Route("GET", "tokens/", Access.SIGNED_IN, owned=False),
    Route(
        "POST",
        "tokens/",
        Access.SIGNED_IN,
        body=lambda scene: {"name": "x", "scopes": ["read"]},
        status=201,
        owned=False,
    ),
    Route("GET", "tokens/{id}/", Access.SIGNED_IN, fill=_token, owned=False),
    Route("DELETE", "tokens/{id}/", Access.SIGNED_IN, fill=_token, status=204, owned=False),
    Route("GET", "stuck/", Right.READ, owned=False),
    Route(
        "POST",
        "stuck/{kind}/{id}/retry/",
        Right.MODELS_WRITE,
        fill=_stuck,
        body=lambda scene: {"reason": "The hub is back."},
    ),
    Route(
        "POST",
        "stuck/{kind}/{id}/answer/",
        Right.MODELS_WRITE,
        fill=_in_doubt,
        body=lambda scene: {"op_key": "order", "happened": True, "reason": "It is in their list."},
    ),
    Route("GET", "webhooks/", Access.SIGNED_IN, owned=False),
    Route(
        "POST",
        "webhooks/",
        Access.SIGNED_IN,
        body=lambda scene: {"url": "https://hooks.example.org/", "person": scene.user.username},
        status=201,
        owned=False,
    ),
    Route("GET", "webhooks/{id}/", Right.WEBHOOKS_WRITE, fill=_webhook),
    Route(
        "PATCH",
        "webhooks/{id}/",
        Right.WEBHOOKS_WRITE,
        fill=_webhook,
        body=lambda scene: {"description": "x"},
    ),
    Route("DELETE", "webhooks/{id}/", Right.WEBHOOKS_WRITE, fill=_webhook, status=204),
    Route("POST", "webhooks/{id}/rotate-secret/", Right.WEBHOOKS_WRITE, fill=_webhook),
    Route("POST", "webhooks/{id}/test/", Right.WEBHOOKS_WRITE, fill=_webhook, status=202),
    Route("GET", "webhooks/{webhook}/deliveries/", Right.WEBHOOKS_WRITE, fill=_of_webhook),
    Route("GET", "webhooks/{webhook}/deliveries/{id}/", Right.WEBHOOKS_WRITE, fill=_delivery),
    Route(
        "POST",
        "webhooks/{webhook}/deliveries/{id}/replay/",
        Right.WEBHOOKS_WRITE,
        fill=_delivery,
        status=202,
    ),
]
