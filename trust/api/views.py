"""Whose signatures a team trusts, what it demands, and the key that this installation signs with."""

from typing import Any, ClassVar

import django_filters
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.utils.functional import cached_property
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from accounts import selectors as accounts
from accounts.api.shared import TEAM
from accounts.models import Team
from accounts.states import Right
from common.api.examples import example
from common.api.views import CreateEndpoint, Endpoint, ListEndpoint, PutEndpoint, RetrieveEndpoint
from common.audit import MAX_REASON
from trust import services, signature_policy
from trust.api import examples
from trust.errors import CannotSign
from trust.models import SignaturePolicy, TrustedKey
from trust.signing.keys import MAX_PEM
from trust.states import SignatureDemand


@example(examples.TRUSTED_KEY)
class TrustedKeySerializer(serializers.ModelSerializer[TrustedKey]):
    team = serializers.CharField(source="team.name")
    in_force = serializers.BooleanField(source="is_in_force")

    class Meta:
        model = TrustedKey
        fields = (
            "id",
            "team",
            "name",
            "pem",
            "fingerprint",
            "reason",
            "added_at",
            "added_by",
            "in_force",
            "removed_at",
            "removed_by",
        )


@example(examples.NEW_TRUSTED_KEY)
class NewTrustedKeySerializer(serializers.Serializer[Any]):
    team = serializers.CharField(max_length=63)
    name = serializers.CharField(max_length=63, help_text="Name of the key.")
    pem = serializers.CharField(
        max_length=MAX_PEM,
        help_text="Public key in PEM format: P-256, P-384 or P-521.",
    )
    reason = serializers.CharField(max_length=MAX_REASON)


@example(examples.KEY_REMOVAL)
class KeyRemovalSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=MAX_REASON)


class TrustedKeyFilter(django_filters.FilterSet):  # type: ignore[misc]
    team = django_filters.CharFilter("team__name")
    in_force = django_filters.BooleanFilter(
        "removed_at", lookup_expr="isnull", label="Only trusted keys, or only removed ones."
    )


class TrustedKeys(ListEndpoint, CreateEndpoint, RetrieveEndpoint):
    """Public keys whose signatures a team takes for good."""

    queryset = TrustedKey.objects.all()
    serializer_class = TrustedKeySerializer
    inputs: ClassVar = {"create": NewTrustedKeySerializer, "remove": KeyRemovalSerializer}
    filterset_class = TrustedKeyFilter
    lookup_field = "id"
    lookup_value_converter = "int"
    sort = ("-added_at", "name")
    needs: ClassVar = dict.fromkeys(("create", "remove"), Right.SIGNATURES_ADMIN)

    def visible(self, rows: QuerySet[TrustedKey]) -> QuerySet[TrustedKey]:
        return signature_policy.trusted_keys(self.actor)

    def create_one(self, given: dict[str, Any]) -> TrustedKey:
        team = accounts.team_named(self.actor, given.pop("team"))
        return services.trust_key(actor=self.actor, team=team, **given)

    @extend_schema(responses={200: TrustedKeySerializer})
    @action(detail=True, methods=["post"])
    def remove(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Remove the trusted key. Running workers are not affected."""
        return self.answer(services.distrust_key(actor=self.actor, key=self.get_object(), **self.given()))


@example(examples.SIGNATURE_POLICY)
class SignaturePolicySerializer(serializers.ModelSerializer[SignaturePolicy]):
    team = serializers.CharField(source="team.name")

    class Meta:
        model = SignaturePolicy
        fields = ("team", "demand", "reason", "changed_at", "changed_by")


@example(examples.SIGNATURE_POLICY_PUT)
class SignaturePolicyPutSerializer(serializers.Serializer[Any]):
    demand = serializers.ChoiceField(
        choices=SignatureDemand.choices,
        help_text="Policy for versions without a trusted signature.",
    )
    reason = serializers.CharField(max_length=MAX_REASON)


@extend_schema(parameters=[TEAM])
class SignaturePolicies(RetrieveEndpoint, PutEndpoint):
    """A team's demands on signatures of served versions; 404 if it has none."""

    queryset = SignaturePolicy.objects.all()
    serializer_class = SignaturePolicySerializer
    inputs: ClassVar = {"update": SignaturePolicyPutSerializer}
    pagination_class = None
    needs: ClassVar = {"update": Right.SIGNATURES_ADMIN}

    @cached_property
    def team(self) -> Team:
        found: Team = get_object_or_404(
            accounts.teams_where(self.actor, Right.READ), name=self.kwargs["team"]
        )
        return found

    def visible(self, rows: QuerySet[SignaturePolicy]) -> QuerySet[SignaturePolicy]:
        return rows.filter(team=self.team).select_related("team")

    def get_object(self) -> SignaturePolicy:
        found: SignaturePolicy = get_object_or_404(self.get_queryset())
        return found

    def put_one(
        self, instance: SignaturePolicy | None, given: dict[str, Any], expected: int | None
    ) -> SignaturePolicy:
        return services.demand_signatures(actor=self.actor, team=self.team, expected=expected, **given)


POLICY = SignaturePolicies.as_view({"get": "retrieve", "put": "update"})


@example(examples.SIGNING)
class SigningSerializer(serializers.Serializer[Any]):
    signs = serializers.BooleanField(help_text="Imported versions are signed.")
    fault = serializers.CharField(help_text="Reason why the configured key cannot be used; else empty.")
    public_key = serializers.CharField(help_text="PEM format, for `model_signing verify key`; or empty.")
    fingerprint = serializers.CharField()


class Signing(Endpoint):
    """The key of this installation."""

    queryset = TrustedKey.objects.none()
    serializer_class = SigningSerializer
    pagination_class = None

    def show(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """The server's signing key. Teams trust it only if they add it."""
        try:
            signer, fault = signature_policy.signer(), ""
        except CannotSign as error:
            signer, fault = None, str(error)
        key = signer.public_key if signer else None
        shown = {
            "signs": signer is not None,
            "fault": fault,
            "public_key": key.pem if key else "",
            "fingerprint": key.fingerprint if key else "",
        }
        return Response(self.get_serializer(shown).data)
