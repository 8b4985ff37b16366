"""`/scim/v2/`: the identity provider's door, with a bearer token that has the scope `people.provision`."""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Concatenate, ParamSpec

import orjson
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_safe
from rest_framework.exceptions import ParseError

from accounts import actors
from accounts.bearer import CHALLENGE, bearer_text, bearer_token
from accounts.errors import InvalidToken
from accounts.failed_tokens import TooManyFailedTokens
from accounts.models import User
from accounts.services.rights import require_everywhere
from accounts.states import Right
from common.actor import Actor
from common.api.json import loads
from common.errors import Conflict, Invalid, Missing, NotAllowed, SlipwayError
from identity.models import ProvisionedGroup
from identity.scim import documents, schemas
from identity.services import provisioning

P = ParamSpec("P")
MAX_BODY = 1024 * 1024
USER_FILTERS = ("username", "externalid")
GROUP_FILTERS = ("displayname", "externalid")
_STATUS: tuple[tuple[type[SlipwayError], int, str], ...] = (
    (documents.BadFilter, 400, "invalidFilter"),
    (Invalid, 400, "invalidValue"),
    (Missing, 404, ""),
    (NotAllowed, 403, ""),
    (Conflict, 409, "uniqueness"),
)


def provisioned(
    view: Callable[Concatenate[HttpRequest, Actor, P], HttpResponse],
) -> Callable[Concatenate[HttpRequest, P], HttpResponse]:
    """Endpoint for whoever has the token; says what goes wrong in SCIM's words."""

    @csrf_exempt
    @wraps(view)
    def answered(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        text = bearer_text(request.headers.get("Authorization", ""))
        address = request.META.get("REMOTE_ADDR", "")
        try:
            if text is None:
                raise InvalidToken("Send a bearer token.")
            actor = actors.of_token(bearer_token(text, address=address), address=address)
            require_everywhere(actor, Right.PEOPLE_PROVISION)
            return view(request, actor, *args, **kwargs)
        except InvalidToken as error:
            refused = _error(401, str(error))
            refused["WWW-Authenticate"] = CHALLENGE
            return refused
        except TooManyFailedTokens as error:
            return _error(429, str(error))
        except ValidationError as error:
            return _error(400, "; ".join(error.messages), "invalidValue")
        except SlipwayError as error:
            for kind, status, scim_type in _STATUS:
                if isinstance(error, kind):
                    return _error(status, str(error), scim_type)
            return _error(503, str(error))

    return answered


@provisioned
@require_http_methods(["GET", "POST"])
def users(request: HttpRequest, actor: Actor) -> HttpResponse:
    if request.method == "POST":
        made = provisioning.create_person(actor=actor, **documents.user_of(_body(request)))
        return _answer(_user(made), 201, location=_user_address(made))
    rows = provisioning.people()
    wanted = documents.parsed_filter(request.GET.get("filter", ""), USER_FILTERS)
    if wanted is not None:
        rows = provisioning.people_by(*wanted)
    return _page(request, rows.order_by("pk"), _user)


@provisioned
@require_http_methods(["GET", "PUT", "PATCH", "DELETE"])
def user(request: HttpRequest, actor: Actor, pk: str) -> HttpResponse:
    found = provisioning.person(pk)
    if request.method == "DELETE":
        provisioning.delete_person(actor=actor, user=found)
        return HttpResponse(status=204)
    if request.method != "GET":
        read = documents.user_of if request.method == "PUT" else documents.user_changes
        found = provisioning.change_person(actor=actor, user=found, **read(_body(request)))
    return _answer(_user(found))


@provisioned
@require_http_methods(["GET", "POST"])
def groups(request: HttpRequest, actor: Actor) -> HttpResponse:
    if request.method == "POST":
        made = provisioning.create_group(actor=actor, change=documents.group_of(_body(request)))
        return _answer(_group(made, members=True), 201, location=_group_address(made))
    rows = ProvisionedGroup.objects.prefetch_related("members")
    wanted = documents.parsed_filter(request.GET.get("filter", ""), GROUP_FILTERS)
    if wanted is not None:
        attribute, value = wanted
        rows = rows.filter(**{"name" if attribute == "displayname" else "external_id": value})
    shown = "members" not in request.GET.get("excludedAttributes", "")
    return _page(request, rows.order_by("pk"), lambda one: _group(one, members=shown))


@provisioned
@require_http_methods(["GET", "PUT", "PATCH", "DELETE"])
def group(request: HttpRequest, actor: Actor, pk: str) -> HttpResponse:
    found = provisioning.group(pk)
    if request.method == "DELETE":
        provisioning.delete_group(actor=actor, group=found)
        return HttpResponse(status=204)
    if request.method != "GET":
        read = documents.group_of if request.method == "PUT" else documents.group_changes
        provisioning.change_group(actor=actor, group=found, change=read(_body(request)))
        if request.method == "PATCH":
            return HttpResponse(status=204)
    return _answer(_group(found, members="members" not in request.GET.get("excludedAttributes", "")))


@provisioned
@require_safe
def about(_request: HttpRequest, _actor: Actor, what: str) -> HttpResponse:
    if what == "ServiceProviderConfig":
        return _answer(schemas.provider_config(_base()))
    found = schemas.schemas(_base()) if what == "Schemas" else schemas.resource_types(_base())
    return _answer(_listed(found, total=len(found), start=1))


def _body(request: HttpRequest) -> Mapping[str, Any]:
    if len(request.body) > MAX_BODY:
        raise documents.BadDocument("The body is too long.")
    try:
        found = loads(request.body)
    except ParseError as error:
        raise documents.BadDocument(str(error.detail)) from None
    if not isinstance(found, dict):
        raise documents.BadDocument("The body must be an object.")
    return found


def _base() -> str:
    return f"{settings.SLIPWAY_PUBLIC_URL}/scim/v2"


def _user_address(user: User) -> str:
    return f"{_base()}/Users/{user.pk}"


def _group_address(group: ProvisionedGroup) -> str:
    return f"{_base()}/Groups/{group.pk}"


def _user(user: User) -> dict[str, Any]:
    shown = {
        "schemas": [documents.USER],
        "id": str(user.pk),
        "userName": user.username,
        "name": {
            "givenName": user.first_name,
            "familyName": user.last_name,
            "formatted": user.get_full_name(),
        },
        "displayName": user.get_full_name() or user.username,
        "active": user.is_active,
        "emails": [{"value": user.email, "type": "work", "primary": True}] if user.email else [],
        "meta": {"resourceType": "User", "location": _user_address(user)},
    }
    external_id = provisioning.external_id_of(user)
    return shown | ({"externalId": external_id} if external_id else {})


def _group(group: ProvisionedGroup, *, members: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "schemas": [documents.GROUP],
        "id": str(group.pk),
        "displayName": group.name,
        "meta": {"resourceType": "Group", "location": _group_address(group)},
    }
    if group.external_id:
        shown["externalId"] = group.external_id
    if members:
        shown["members"] = [
            {"value": str(one.pk), "display": one.username, "$ref": _user_address(one)}
            for one in group.members.all()
        ]
    return shown


def _page(request: HttpRequest, rows: QuerySet[Any], show: Callable[[Any], dict[str, Any]]) -> HttpResponse:
    start = max(1, _number(request, "startIndex", 1))
    count = min(max(0, _number(request, "count", 100)), schemas.MAX_RESULTS)
    found = [show(row) for row in rows[start - 1 : start - 1 + count]]
    return _answer(_listed(found, total=rows.count(), start=start))


def _number(request: HttpRequest, name: str, usual: int) -> int:
    try:
        return min(int(request.GET.get(name, usual)), 1_000_000_000)
    except ValueError:
        raise documents.BadDocument(f"`{name}` must be a number.") from None


def _listed(found: list[dict[str, Any]], *, total: int, start: int) -> dict[str, Any]:
    return {
        "schemas": [documents.LIST],
        "totalResults": total,
        "startIndex": start,
        "itemsPerPage": len(found),
        "Resources": found,
    }


def _answer(content: dict[str, Any], status: int = 200, *, location: str = "") -> HttpResponse:
    response = HttpResponse(orjson.dumps(content), content_type="application/scim+json", status=status)
    response["Cache-Control"] = "no-store"
    if location:
        response["Location"] = location
    return response


def _error(status: int, detail: str, scim_type: str = "") -> HttpResponse:
    told = {"schemas": [documents.ERROR], "status": str(status), "detail": detail}
    return _answer(told | ({"scimType": scim_type} if scim_type else {}), status)
