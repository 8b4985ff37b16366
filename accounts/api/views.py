from typing import Any, ClassVar, cast

from django.db.models import Prefetch, Q, QuerySet
from django.shortcuts import get_object_or_404
from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from accounts import actors, selectors
from accounts.api import serializers
from accounts.api.permissions import InstallationRight
from accounts.api.shared import TEAM
from accounts.filters import PersonFilter, TokenFilter
from accounts.models import ApiToken, Membership, Team, User
from accounts.services import people, tokens
from accounts.services import rights as rights_services
from accounts.services import teams as team_services
from accounts.states import Right
from accounts.token_presets import PRESETS
from common.api.views import (
    CreateEndpoint,
    DestroyEndpoint,
    Endpoint,
    ListEndpoint,
    PutEndpoint,
    RetrieveEndpoint,
    UpdateEndpoint,
)
from common.errors import Invalid


class People(ListEndpoint, CreateEndpoint, RetrieveEndpoint, UpdateEndpoint):
    """People: oneself and those in the same teams; everyone for administrators of the installation."""

    queryset = User.objects.all()
    serializer_class = serializers.PersonSerializer
    inputs = {
        "create": serializers.NewPersonSerializer,
        "partial_update": serializers.PersonChangeSerializer,
        "password": serializers.PasswordSerializer,
    }
    lookup_field = "username"
    lookup_value_converter = "str"
    sort = ("username", "-date_joined")
    filterset_class = PersonFilter
    needs: ClassVar = {
        "create": Right.PEOPLE_ADMIN,
        "partial_update": InstallationRight(Right.PEOPLE_ADMIN),
        "password": InstallationRight(Right.PEOPLE_ADMIN),
    }

    def visible(self, rows: QuerySet[User]) -> QuerySet[User]:
        shared = Prefetch("memberships", queryset=self.memberships(), to_attr="shared_memberships")
        return selectors.people(self.actor).prefetch_related(shared)

    def memberships(self) -> QuerySet[Membership]:
        teams = selectors.teams_where(self.actor, Right.READ)
        return Membership.objects.filter(team__in=teams).select_related("team").order_by("team__name")

    def create_one(self, given: dict[str, Any]) -> User:
        name = given.pop("team", None)
        team = None if name is None else selectors.team_named(self.actor, name)
        return people.create_user(actor=self.actor, team=team, **given)

    def change_one(self, instance: User, given: dict[str, Any], expected: int | None) -> User:
        return people.change_user(actor=self.actor, user=instance, expected=expected, **given)

    @extend_schema(responses={204: None})
    @action(detail=True, methods=["post"])
    def password(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Set a user's password and end their sessions; for administrators."""
        people.set_password(actor=self.actor, user=self.get_object(), **self.given())
        return Response(status=204)


class Teams(ListEndpoint, CreateEndpoint, RetrieveEndpoint, UpdateEndpoint, DestroyEndpoint):
    """The teams that you are in, and their names, which models and services refer to."""

    queryset = Team.objects.all()
    serializer_class = serializers.TeamSerializer
    inputs = {"create": serializers.NewTeamSerializer, "partial_update": serializers.TeamChangeSerializer}
    lookup_field = "name"
    lookup_url_kwarg = "team"
    lookup_value_converter = "str"
    sort = ("name", "-created_at")
    search_fields = ("name", "description")
    needs: ClassVar = {
        "create": InstallationRight(Right.PEOPLE_ADMIN),
        "partial_update": Right.PEOPLE_ADMIN,
        "destroy": InstallationRight(Right.PEOPLE_ADMIN),
    }

    def visible(self, rows: QuerySet[Team]) -> QuerySet[Team]:
        return selectors.teams_where(self.actor, Right.READ)

    def create_one(self, given: dict[str, Any]) -> Team:
        return team_services.create_team(actor=self.actor, **given)

    def change_one(self, instance: Team, given: dict[str, Any], expected: int | None) -> Team:
        given = {"description": instance.description} | given
        return team_services.change_team(actor=self.actor, team=instance, expected=expected, **given)

    def delete_one(self, instance: Team, expected: int | None, reason: str) -> None:
        team_services.delete_team(actor=self.actor, team=instance, expected=expected, reason=reason)


USERNAME = OpenApiParameter("username", OpenApiTypes.STR, OpenApiParameter.PATH)


@extend_schema(parameters=[TEAM])
class Members(ListEndpoint, CreateEndpoint, RetrieveEndpoint, PutEndpoint, DestroyEndpoint):
    """Who is in a team, and as what."""

    queryset = Membership.objects.all()
    serializer_class = serializers.MemberSerializer
    inputs = {"create": serializers.NewMemberSerializer, "update": serializers.RoleChangeSerializer}
    lookup_field = "user__username"
    lookup_url_kwarg = "username"
    lookup_value_converter = "str"
    sort = ("user__username", "-created_at")
    search_fields = ("user__username",)
    needs: ClassVar = dict.fromkeys(("create", "update", "destroy"), Right.PEOPLE_ADMIN)

    @cached_property
    def team(self) -> Team:
        return get_object_or_404(selectors.teams_where(self.actor, Right.READ), name=self.kwargs["team"])

    def visible(self, rows: QuerySet[Membership]) -> QuerySet[Membership]:
        return rows.filter(team=self.team).select_related("user", "team")

    def create_one(self, given: dict[str, Any]) -> Membership:
        return self._set(given.pop("username"), given, None)

    def put_one(self, instance: Membership | None, given: dict[str, Any], expected: int | None) -> Membership:
        return self._set(self.kwargs["username"], given, expected)

    def _set(self, username: str, given: dict[str, Any], expected: int | None) -> Membership:
        rights_services.require(self.actor, Right.PEOPLE_ADMIN, self.team)
        # Whom one adds is no colleague yet: an admin may name anybody who has an account.
        user = User.objects.filter(username=username).first()
        if user is None:
            raise Invalid(fields={"username": [_("There is no such person.")]})
        return team_services.set_role(actor=self.actor, user=user, team=self.team, expected=expected, **given)

    def delete_one(self, instance: Membership, expected: int | None, reason: str) -> None:
        team_services.remove_member(actor=self.actor, membership=instance, expected=expected, reason=reason)


class Tokens(ListEndpoint, CreateEndpoint, RetrieveEndpoint, DestroyEndpoint):
    """API tokens: one's own; everyone's for administrators of the installation."""

    queryset = ApiToken.objects.all()
    serializer_class = serializers.TokenSerializer
    inputs = {"create": serializers.NewTokenSerializer}
    outputs = {"create": serializers.IssuedTokenSerializer}
    secret_answers = frozenset({"create"})
    lookup_url_kwarg = "id"
    lookup_value_converter = "int"
    sort = ("-created_at", "name", "expires_at")
    filterset_class = TokenFilter

    def visible(self, rows: QuerySet[ApiToken]) -> QuerySet[ApiToken]:
        return selectors.tokens(self.actor)

    def create_one(self, given: dict[str, Any]) -> ApiToken:
        preset = given.pop("preset", None)
        given["scopes"] = {*given.get("scopes", ()), *(PRESETS[preset].scopes if preset else ())}
        if "team" in given:
            given["team"] = selectors.team_named(self.actor, given["team"])
        if "owner" in given:
            owner = selectors.people(self.actor).filter(username=given["owner"]).first()
            if owner is None:
                raise Invalid(fields={"owner": [_("There is no such person.")]})
            given["owner"] = owner
        issued = tokens.create_token(actor=self.actor, **given)
        # The one answer that holds it; the row keeps only a hash.
        issued.token.token = issued.text  # type: ignore[attr-defined]
        return issued.token

    def delete_one(self, instance: ApiToken, expected: int | None, reason: str) -> None:
        tokens.revoke_token(actor=self.actor, token=instance, reason=reason)


class Me(Endpoint):
    serializer_class = serializers.MeSerializer
    pagination_class = None

    def show(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """The current user and their permissions."""
        grants = actors.grants_of(self.actor)
        user = cast("User", request.user)
        # An administrator may do the same in every team: only those that one is in are listed.
        listed = Q(pk__in=grants.by_team) | Q(memberships__user=user)
        rights = [
            {"team": team.name, "rights": sorted(held)}
            for team in Team.objects.filter(listed).distinct().order_by("name")
            if (held := grants.rights_in(team.pk))
        ]
        shown = {
            "username": user.username,
            "first_name": user.first_name,
            "last_name": user.last_name,
            "email": user.email,
            "is_superuser": user.is_superuser,
            "token": request.auth,
            "everywhere": sorted(grants.everywhere),
            "teams": rights,
        }
        return Response(self.get_serializer(shown).data)
