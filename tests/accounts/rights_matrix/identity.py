from collections.abc import Mapping
from typing import Any

from accounts.models import User
from accounts.services.people import create_service_account
from accounts.states import Right
from identity.federation import GITHUB
from identity.models import GroupRule
from identity.services.federation import create_credential
from tests.accounts.rights_matrix.scene import Access, Route, Scene, new_name
from tests.cast import SYSTEM


def _rule(scene: Scene) -> Mapping[str, Any]:
    made = GroupRule.objects.create(pattern=new_name(), team=scene.team, role="viewer")
    return {"id": made.pk}


def _new_rule(scene: Scene) -> Mapping[str, Any]:
    return {"pattern": new_name(), "team": scene.team.name, "role": "viewer"}


def _account(scene: Scene) -> User:
    return create_service_account(actor=SYSTEM, username=new_name(), team=scene.team, role="viewer")


def _named_account(scene: Scene) -> Mapping[str, Any]:
    return {"username": _account(scene).username}


def _new_account(scene: Scene) -> Mapping[str, Any]:
    return {"username": new_name(), "team": scene.team.name, "role": "viewer"}


def _new_credential(scene: Scene) -> dict[str, Any]:
    return {
        "account": _account(scene).username,
        "name": new_name(),
        "issuer": GITHUB,
        "subject": "repo:acme/*",
        "scopes": ["read"],
    }


def _credential(scene: Scene) -> Mapping[str, Any]:
    given = _new_credential(scene) | {"account": _account(scene)}
    return {"id": create_credential(actor=SYSTEM, **given).pk}


ADMINISTRATOR = {"needs": Access.ADMINISTRATOR, "owned": False}
ROUTES = [
    Route("GET", "group-rules/", **ADMINISTRATOR),
    Route("POST", "group-rules/", body=_new_rule, status=201, **ADMINISTRATOR),
    Route("GET", "group-rules/{id}/", fill=_rule, **ADMINISTRATOR),
    Route("PATCH", "group-rules/{id}/", fill=_rule, body=lambda _: {"role": "operator"}, **ADMINISTRATOR),
    Route("DELETE", "group-rules/{id}/", fill=_rule, status=204, **ADMINISTRATOR),
    Route("GET", "service-accounts/", Access.SIGNED_IN, owned=False),
    Route("POST", "service-accounts/", Right.PEOPLE_ADMIN, body=_new_account, status=201, owned=False),
    Route("GET", "service-accounts/{username}/", Right.READ, fill=_named_account),
    Route("GET", "federated-credentials/", Access.SIGNED_IN, owned=False),
    Route(
        "POST", "federated-credentials/", Right.PEOPLE_ADMIN, body=_new_credential, status=201, owned=False
    ),
    Route("GET", "federated-credentials/{id}/", Right.READ, fill=_credential),
    Route(
        "PATCH",
        "federated-credentials/{id}/",
        Right.PEOPLE_ADMIN,
        fill=_credential,
        body=lambda _: {"minutes": 9},
    ),
    Route("DELETE", "federated-credentials/{id}/", Right.PEOPLE_ADMIN, fill=_credential, status=204),
    Route("POST", "tokens/exchange/", Access.ANYBODY, body=lambda _: {"token": "x"}, status=403, owned=False),
    Route("POST", "group-rules/dry-run/", body=lambda _: {"groups": ["v"]}, **ADMINISTRATOR),
]
