from typing import Any

from rest_framework import serializers

from common.api.examples import example
from gateway import selectors
from gateway.api import examples
from gateway.models import AbilityRoute, ClientKey, Gateway, Route
from gateway.states import GatewayKind, MetricsKind


@example(examples.GATEWAY)
class GatewaySerializer(serializers.ModelSerializer[Gateway]):
    cluster = serializers.CharField(source="cluster.name")
    settings = serializers.DictField(help_text="Settings of its kind.")
    secrets = serializers.SerializerMethodField(help_text="Names of the secrets that are set.")
    metrics = serializers.ChoiceField(
        choices=MetricsKind.choices, help_text="Who counts the requests that each version answers."
    )
    public_url = serializers.SerializerMethodField(help_text="Address under which clients reach it.")
    named_url = serializers.CharField(
        source="public_url", help_text="The same as somebody has set it; empty: as its kind derives it."
    )
    counted_by = serializers.SerializerMethodField(help_text="Who counts, in words.")
    not_counted = serializers.SerializerMethodField(
        help_text="Errors that nobody counts, in words; empty: none."
    )
    gateway_class = serializers.CharField(
        help_text="Of the Gateway, as last seen; empty: none, or not seen yet."
    )
    features = serializers.ListField(
        child=serializers.CharField(),
        allow_null=True,
        help_text="That the class says it supports, as last seen; null: not known. The setting "
        "`assume_features` adds to them.",
    )
    lacks = serializers.CharField(help_text="What keeps releases from going through it; empty: nothing.")
    cannot = serializers.DictField(
        child=serializers.CharField(),
        help_text="What steps of plans may ask of a gateway and this one cannot, by name, with the reason.",
    )
    detail = serializers.CharField(help_text="Its health, when it was last checked.")
    counted_since = serializers.DateTimeField(
        allow_null=True, help_text="Start of the present counts; they begin anew when the gateway restarts."
    )

    class Meta:
        model = Gateway
        fields = (
            "cluster",
            "kind",
            "settings",
            "secrets",
            "metrics",
            "public_url",
            "named_url",
            "counted_by",
            "not_counted",
            "gateway_class",
            "features",
            "lacks",
            "cannot",
            "is_healthy",
            "detail",
            "seen_at",
            "counted_since",
        )

    def get_secrets(self, gateway: Gateway) -> list[str]:
        return selectors.secret_names(gateway)

    def get_not_counted(self, gateway: Gateway) -> str:
        return selectors.not_counted_by(gateway.metrics)

    def get_counted_by(self, gateway: Gateway) -> str:
        return selectors.who_counts(gateway.metrics, gateway.settings)

    def get_public_url(self, gateway: Gateway) -> str:
        return selectors.public_url(gateway)


@example(examples.GATEWAY_PUT)
class GatewayPutSerializer(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(choices=GatewayKind.choices)
    settings = serializers.DictField(
        required=False,
        help_text="Settings of its kind. Envoy by files: `port`, `admin_port` and, optionally, `bind`; none: "
        "the Envoy of this installation. Gateway API: `gateway` and others, see docs/KUBERNETES.md. Where "
        "Prometheus counts: `prometheus`; where Envoys do: `envoy`.",
    )
    secrets = serializers.DictField(
        child=serializers.CharField(max_length=10_000),
        required=False,
        write_only=True,
        help_text="Secrets of its kind, encrypted at rest. Omitted: unchanged.",
    )
    metrics = serializers.ChoiceField(choices=MetricsKind.choices, default=MetricsKind.GATEWAY)
    public_url = serializers.URLField(
        max_length=300,
        required=False,
        allow_blank=True,
        help_text="Address under which clients reach it. Empty: as its kind derives it.",
    )


@example(examples.ABILITY)
class AbilitySerializer(serializers.ModelSerializer[AbilityRoute]):
    team = serializers.CharField(source="team.name")
    cluster = serializers.CharField(source="gateway.cluster.name")
    ability = serializers.CharField(help_text="As workers register it.")
    address = serializers.SerializerMethodField(help_text="Where clients reach it.")
    services = serializers.SerializerMethodField(help_text="Services whose workers answer there.")
    workers = serializers.IntegerField()
    slots = serializers.IntegerField(help_text="Requests that they work on at the same time.")
    problem = serializers.CharField(help_text="Why nobody answers there, in words.")

    class Meta:
        model = AbilityRoute
        fields = (
            *("name", "team", "cluster", "ability", "description", "state", "address", "services", "workers"),
            *("slots", "problem", "created_at", "created_by"),
        )

    def get_address(self, row: AbilityRoute) -> str:
        return f"{selectors.public_url(row.gateway)}/{row.name}/"

    def get_services(self, row: AbilityRoute) -> list[str]:
        return [str(one["service"]) for one in row.members]


@example(examples.NEW_ABILITY)
class NewAbilitySerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=63, help_text="First part of its address: `/<name>/...`.")
    team = serializers.CharField(max_length=63)
    ability = serializers.CharField(
        max_length=64, required=False, help_text="As workers register it. Default: the same as `name`."
    )
    cluster = serializers.CharField(
        max_length=63,
        required=False,
        help_text="Cluster of its gateway. Default: one whose gateway is `envoy`, else the first.",
    )
    description = serializers.CharField(max_length=500, required=False, allow_blank=True)


@example(examples.CLIENT_KEY)
class ClientKeySerializer(serializers.ModelSerializer[ClientKey]):
    team = serializers.CharField(source="team.name")
    prefix = serializers.CharField(help_text="First characters of the key.")
    services = serializers.ListField(
        child=serializers.CharField(),
        help_text="Services and abilities that it opens; empty: all of the team.",
    )
    requests_per_minute = serializers.IntegerField(allow_null=True, help_text="null: no limit.")
    tokens_per_minute = serializers.IntegerField(
        allow_null=True, help_text="Of prompts and answers, counted as answers end. null: no limit."
    )
    expires_at = serializers.DateTimeField(allow_null=True, help_text="null: never.")

    class Meta:
        model = ClientKey
        fields: tuple[str, ...] = (
            *("id", "name", "team", "description", "prefix", "state", "services", "requests_per_minute"),
            *("tokens_per_minute", "expires_at", "revoked_at", "created_at", "created_by"),
        )


@example(examples.ISSUED_CLIENT_KEY)
class IssuedClientKeySerializer(ClientKeySerializer):
    key = serializers.CharField(help_text="The key; shown only once.")

    class Meta(ClientKeySerializer.Meta):
        fields = (*ClientKeySerializer.Meta.fields, "key")


@example(examples.NEW_CLIENT_KEY)
class NewClientKeySerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=63, help_text="Who uses it.")
    team = serializers.CharField(max_length=63)
    services = serializers.ListField(child=serializers.CharField(max_length=128), required=False)
    requests_per_minute = serializers.IntegerField(required=False, min_value=1, allow_null=True)
    tokens_per_minute = serializers.IntegerField(required=False, min_value=1, allow_null=True)
    expires_at = serializers.DateTimeField(required=False, allow_null=True)
    description = serializers.CharField(max_length=500, required=False, allow_blank=True)


@example(examples.CLIENT_ACCESS)
class ClientAccessSerializer(serializers.ModelSerializer[Route]):
    requires_key = serializers.BooleanField(
        help_text="Whether the gateway answers for the service to clients with a key alone."
    )

    class Meta:
        model = Route
        fields = ("service", "requires_key")


@example(examples.CLIENT_ACCESS_PUT)
class ClientAccessPutSerializer(serializers.Serializer[Any]):
    requires_key = serializers.BooleanField()
    reason = serializers.CharField(max_length=500, required=False, allow_blank=True)
