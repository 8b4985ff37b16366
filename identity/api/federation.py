"""Service accounts, the tokens of CI systems that they accept, and the exchange of one."""

from typing import Any, ClassVar

from django.db.models import Prefetch, QuerySet
from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import AnonRateThrottle

from accounts import selectors as accounts
from accounts.models import Membership, User
from accounts.services import people
from accounts.states import Right, Role
from common.api.examples import example
from common.api.views import (
    CreateEndpoint,
    DestroyEndpoint,
    Endpoint,
    ListEndpoint,
    RetrieveEndpoint,
    UpdateEndpoint,
)
from common.audit import MAX_REASON
from common.errors import Invalid
from identity import selectors
from identity.api import examples
from identity.models import FederatedCredential
from identity.patterns import MAX_PATTERN
from identity.services import federation

CLAIMS = 'Patterns of further claims, such as {"environment": "production"}.'
SUBJECT = (
    "Pattern of the claim `sub`, such as repo:acme/api:ref:refs/heads/main; * stands for any characters."
)


class RoleInTeamSerializer(serializers.ModelSerializer[Membership]):
    team = serializers.CharField(source="team.name")

    class Meta:
        model = Membership
        fields = ("team", "role")


@example(examples.SERVICE_ACCOUNT)
class ServiceAccountSerializer(serializers.ModelSerializer[User]):
    description = serializers.CharField(source="first_name")
    teams = RoleInTeamSerializer(source="shared_memberships", many=True)

    class Meta:
        model = User
        fields = ("username", "description", "is_active", "teams")


@example(examples.NEW_SERVICE_ACCOUNT)
class NewServiceAccountSerializer(serializers.Serializer[Any]):
    username = serializers.CharField(max_length=150)
    team = serializers.CharField(max_length=63)
    role = serializers.ChoiceField(choices=Role.choices)
    description = serializers.CharField(max_length=150, required=False, allow_blank=True)


class ServiceAccounts(ListEndpoint, CreateEndpoint, RetrieveEndpoint):
    """Accounts of programs: in teams as people are, but nobody signs in as them."""

    queryset = User.objects.all()
    serializer_class = ServiceAccountSerializer
    inputs: ClassVar = {"create": NewServiceAccountSerializer}
    lookup_field = "username"
    lookup_value_converter = "str"
    sort = ("username",)
    search_fields = ("username", "first_name")
    needs: ClassVar = {"create": Right.PEOPLE_ADMIN}

    def visible(self, rows: QuerySet[User]) -> QuerySet[User]:
        teams = accounts.teams_where(self.actor, Right.READ)
        shared = Membership.objects.filter(team__in=teams).select_related("team").order_by("team__name")
        return selectors.service_accounts(self.actor).prefetch_related(
            Prefetch("memberships", queryset=shared, to_attr="shared_memberships")
        )

    def create_one(self, given: dict[str, Any]) -> User:
        team = accounts.team_named(self.actor, given.pop("team"))
        made = people.create_service_account(actor=self.actor, team=team, **given)
        shown: User = self.get_queryset().get(pk=made.pk)
        return shown


@example(examples.FEDERATED_CREDENTIAL)
class FederatedCredentialSerializer(serializers.ModelSerializer[FederatedCredential]):
    account = serializers.CharField(source="account.username")
    single_use = serializers.BooleanField(source="is_single_use")
    claims = serializers.DictField(child=serializers.CharField())
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=Right.choices))

    class Meta:
        model = FederatedCredential
        fields = (
            "id",
            "account",
            "name",
            "issuer",
            "audience",
            "subject",
            "claims",
            "scopes",
            "minutes",
            "single_use",
            "created_at",
            "created_by",
            "last_used_at",
        )


@example(examples.FEDERATED_CREDENTIAL_CHANGE)
class FederatedCredentialChangeSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=100)
    issuer = serializers.CharField(max_length=500, help_text="One of SLIPWAY_CI_ISSUERS.")
    audience = serializers.CharField(
        max_length=500, required=False, help_text="Default: the address of the console."
    )
    subject = serializers.CharField(
        max_length=MAX_PATTERN, required=False, allow_blank=True, help_text=SUBJECT
    )
    claims = serializers.DictField(
        child=serializers.CharField(max_length=MAX_PATTERN), required=False, help_text=CLAIMS
    )
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=Right.choices))
    minutes = serializers.IntegerField(
        min_value=1, max_value=federation.LONGEST_MINUTES, required=False, help_text="Default: 30."
    )
    single_use = serializers.BooleanField(
        required=False, source="is_single_use", help_text="Take each token of the CI system once."
    )
    reason = serializers.CharField(max_length=MAX_REASON, required=False, allow_blank=True)


@example(examples.NEW_FEDERATED_CREDENTIAL)
class NewFederatedCredentialSerializer(FederatedCredentialChangeSerializer):
    account = serializers.CharField(max_length=150, help_text="Username of the service account.")


class FederatedCredentials(ListEndpoint, CreateEndpoint, RetrieveEndpoint, UpdateEndpoint, DestroyEndpoint):
    """The tokens of CI systems that service accounts accept instead of a stored token."""

    queryset = FederatedCredential.objects.all()
    serializer_class = FederatedCredentialSerializer
    inputs: ClassVar = {
        "create": NewFederatedCredentialSerializer,
        "partial_update": FederatedCredentialChangeSerializer,
    }
    lookup_field = "id"
    lookup_value_converter = "int"
    sort = ("account__username", "name", "-created_at")
    search_fields = ("name", "account__username", "subject")
    needs: ClassVar = dict.fromkeys(("create", "partial_update", "destroy"), Right.PEOPLE_ADMIN)

    def visible(self, rows: QuerySet[FederatedCredential]) -> QuerySet[FederatedCredential]:
        return selectors.credentials(self.actor)

    def create_one(self, given: dict[str, Any]) -> FederatedCredential:
        name = given.pop("account")
        account = selectors.service_accounts(self.actor).filter(username=name).first()
        if account is None:
            raise Invalid(
                fields={"account": [_("There is no such service account, or none that you may see.")]}
            )
        return federation.create_credential(actor=self.actor, account=account, **given)

    def change_one(
        self, instance: FederatedCredential, given: dict[str, Any], expected: int | None
    ) -> FederatedCredential:
        return federation.change_credential(actor=self.actor, credential=instance, expected=expected, **given)

    def delete_one(self, instance: FederatedCredential, expected: int | None, reason: str) -> None:
        federation.delete_credential(actor=self.actor, credential=instance, expected=expected, reason=reason)


@example(examples.EXCHANGE)
class ExchangeSerializer(serializers.Serializer[Any]):
    token = serializers.CharField(
        max_length=20_000, write_only=True, help_text="OpenID Connect token of the CI job."
    )
    account = serializers.CharField(
        max_length=150,
        required=False,
        help_text="Username of the service account; needed when credentials of several fit.",
    )


@example(examples.EXCHANGED)
class ExchangedSerializer(serializers.Serializer[Any]):
    token = serializers.CharField(help_text="API token; shown once.")
    account = serializers.CharField()
    scopes = serializers.ListField(child=serializers.CharField())
    expires_at = serializers.DateTimeField()


class ExchangeThrottle(AnonRateThrottle):
    rate = "60/min"

    def get_cache_key(self, request: Request, view: Any) -> str:
        return f"exchange:{request.META.get('REMOTE_ADDR', '')}"


class TokenExchange(Endpoint):
    """A token of a CI system for one of Slipway."""

    serializer_class = ExchangedSerializer
    inputs: ClassVar = {"exchange": ExchangeSerializer}
    secret_answers = frozenset({"exchange"})
    authentication_classes = ()
    permission_classes = (AllowAny,)
    throttle_classes = (ExchangeThrottle,)
    pagination_class = None

    @extend_schema(responses={201: ExchangedSerializer}, auth=[])
    def exchange(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Exchange the OpenID Connect token of a GitHub or GitLab job for an API token that lives minutes."""
        given = self.given()
        address = request.META.get("REMOTE_ADDR", "")
        issued = federation.exchange(given["token"], account=given.get("account", ""), address=address)
        shown = {
            "token": issued.text,
            "account": issued.token.owner.username,
            "scopes": issued.token.scopes,
            "expires_at": issued.token.expires_at,
        }
        return Response(ExchangedSerializer(shown).data, status=201)
