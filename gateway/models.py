import json
from collections.abc import Mapping
from typing import ClassVar, cast

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _

from accounts.querysets import TeamOrShared, TeamOwned
from accounts.states import TokenState
from accounts.team_rows import TeamRow
from common.fence import Fence
from common.hosts import MOST_CHARACTERS
from common.reconcile import Reconciled
from common.revisions import Revised
from common.sealed import CannotUnseal, seal, unseal
from gateway.routes import (
    Cohort,
    ReleaseHeader,
    RouteSpec,
    RouteTarget,
)
from gateway.states import AbilityState, GatewayKind, MetricsKind

KEY_PURPOSE = "release-key"
SECRETS_PURPOSE = "gateway-secrets"


def default_release_header() -> str:
    """Return the initial setting of a service."""
    return str(settings.SLIPWAY_RELEASE_HEADER)


def sealed_key(key: str) -> str:
    return seal(key, purpose=KEY_PURPOSE) if key else ""


def opened_key(sealed: str) -> str:
    """Return the key; empty where there is none or it cannot be read any more: nobody chooses a side then."""
    try:
        return unseal(sealed, purpose=KEY_PURPOSE) if sealed else ""
    except CannotUnseal:
        return ""


def answers_key(service: str, candidate_target: str) -> str:
    """Return the key for the answers that are kept while this candidate gets copies of requests."""
    told = f"{service} {candidate_target}"
    return salted_hmac("gateway answers", told, algorithm="sha256").hexdigest()[:32]


def sealed_secrets(secrets: Mapping[str, str]) -> str:
    return seal(json.dumps(dict(secrets)), purpose=SECRETS_PURPOSE) if secrets else ""


class GatewayRows(TeamOrShared["Gateway"]):
    team_path = "cluster__team"


class Gateway(Reconciled, Revised):
    """The gateway of one cluster: how it is reached, and how it was last seen."""

    cluster = models.OneToOneField("clusters.Cluster", on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=20, choices=GatewayKind.choices)
    host = models.CharField(max_length=MOST_CHARACTERS, blank=True, editable=False)
    """The one whose files it is told by; blank: it is reached over a network, by anybody."""
    settings = models.JSONField(default=dict, blank=True)
    """What the backend of this kind needs to reach it."""
    sealed_secrets = models.TextField(blank=True, editable=False)
    """What of that nobody may read: a JSON object, sealed."""
    metrics = models.CharField(max_length=20, choices=MetricsKind.choices, default=MetricsKind.GATEWAY)
    counter_starts = models.JSONField(default=dict, blank=True, editable=False)
    """By Envoy that counts: since when it does, as it seemed when it was first asked."""
    public_url = models.URLField(max_length=300, blank=True)
    """Where clients reach it; blank: as its kind says."""
    host_url = models.CharField(max_length=300, blank=True, editable=False)
    """Where clients reach it as its own host says, whose settings others do not know, or as a Gateway of a
    cluster told when it was last well."""
    seen_at = models.DateTimeField(null=True, editable=False)
    is_healthy = models.BooleanField(default=False, editable=False)
    detail = models.TextField(blank=True, editable=False)
    """Its health in words."""
    lacks = models.TextField(blank=True, editable=False)
    """What keeps it from having routes as releases need them, in words."""
    cannot = models.JSONField(default=dict, blank=True, editable=False)
    """What steps of plans may ask of a gateway and this one cannot, by name, with the reason."""
    gateway_class = models.CharField(max_length=253, blank=True, editable=False)
    """Of its Gateway, as seen last; blank: not seen yet, or of a kind that has none."""
    features = models.JSONField(null=True, editable=False)
    """That the class says it supports; None: not known."""
    recorded_minute = models.PositiveBigIntegerField(default=0, editable=False)
    """When its traffic was last written down, in whole minutes since 1970."""
    counted_since = models.DateTimeField(null=True, editable=False)
    """Since when all that is counted was counted; a reset begins anew."""

    objects = GatewayRows.as_manager()

    class Meta(Reconciled.Meta):
        pass

    def __str__(self) -> str:
        return self.cluster.name

    @property
    def secrets(self) -> dict[str, str]:
        """Raises CannotUnseal."""
        if not self.sealed_secrets:
            return {}
        return dict(json.loads(unseal(self.sealed_secrets, purpose=SECRETS_PURPOSE)))


class Route(models.Model):
    """The desired route of one service, its last writer, and the result.

    A removed route stays as a row, because its fence must outlive it.
    """

    gateway = models.ForeignKey(Gateway, on_delete=models.PROTECT, related_name="+")
    service = models.CharField(max_length=128, unique=True)
    stable_target = models.CharField(max_length=128)
    stable_version = models.CharField(max_length=400)
    candidate_target = models.CharField(max_length=128, blank=True)
    candidate_version = models.CharField(max_length=400, blank=True)
    candidate_percent = models.PositiveSmallIntegerField(default=0)
    mirror_percent = models.PositiveSmallIntegerField(default=0)
    keeps_answers = models.BooleanField(default=False, db_default=False)
    """Whether workers keep the answers to copied requests for a comparison."""
    cohort = models.JSONField(null=True, blank=True)
    """As `gateway.routes.Cohort`; None: nobody's requests are chosen so."""
    all_paths = models.BooleanField(default=False)
    """As `RouteSpec.all_paths`."""
    release_header = models.CharField(max_length=10, default=default_release_header)
    """Who may choose a side by `x-release`: `gateway.routes.ReleaseHeader`."""
    sealed_release_key = models.TextField(blank=True)
    requires_key = models.BooleanField(default=False, db_default=False)
    """Whether the gateway answers to clients with a key alone."""
    withheld_since = models.DateTimeField(null=True)
    """Since when stable gets the candidate's requests, because the candidate has no ready worker; None: it
    gets its own."""
    writer = models.PositiveBigIntegerField()
    """Id of the release that wrote it last; 0 for the service itself."""
    writer_turn = models.PositiveBigIntegerField()
    changed_at = models.DateTimeField()
    removed_at = models.DateTimeField(null=True)
    applied_at = models.DateTimeField(null=True)
    """When the gateway took it as it is desired now; None while it has not."""
    problem = models.TextField(blank=True)
    """Why it has not, in words."""

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(candidate_percent__lte=100), name="route_percent_at_most_100"),
            models.CheckConstraint(
                condition=Q(candidate_percent=0) | ~Q(candidate_target=""), name="route_share_needs_candidate"
            ),
            models.CheckConstraint(
                condition=~Q(candidate_target=F("stable_target")), name="route_sides_differ"
            ),
        ]

    def __str__(self) -> str:
        return self.service

    @property
    def fence(self) -> Fence:
        return Fence(self.writer, self.writer_turn)

    @property
    def spec(self) -> RouteSpec:
        return RouteSpec(
            name=self.service,
            stable=RouteTarget(self.stable_target, self.stable_version),
            candidate=RouteTarget(self.candidate_target, self.candidate_version)
            if self.candidate_target
            else None,
            candidate_percent=self.candidate_percent,
            release_header=cast("ReleaseHeader", self.release_header),
            release_key=self.release_key,
            mirror_percent=self.mirror_percent,
            answers_key=answers_key(self.service, self.candidate_target) if self.keeps_answers else "",
            cohort=Cohort(**self.cohort) if self.cohort else None,
            all_paths=self.all_paths,
        )

    @property
    def applied_spec(self) -> RouteSpec:
        """The route as its gateway is told: a candidate without a ready worker gets no request at all."""
        return self.spec if self.withheld_since is None else self.spec.to_stable_alone

    @property
    def release_key(self) -> str:
        return opened_key(self.sealed_release_key)


class AbilityRows(TeamOwned["AbilityRoute"]):
    team_path = "team"


class AbilityRoute(TeamRow):
    """An address of a gateway that leads to all workers with an ability, of the services of one team."""

    gateway = models.ForeignKey(Gateway, on_delete=models.PROTECT, related_name="+")
    ability = models.CharField(max_length=64)
    """As workers register it."""
    state = models.CharField(max_length=20, choices=AbilityState.choices, default=AbilityState.PENDING)
    members = models.JSONField(default=list, editable=False)
    """As the gateway was told last: for each service its deployment, its workers, the slots of each."""
    problem = models.TextField(blank=True, editable=False)
    """Why nobody answers there, in words."""

    objects = AbilityRows.as_manager()

    class Meta(TeamRow.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["name"], name="one_address_of_an_ability"),
        ]

    @property
    def workers(self) -> int:
        return sum(len(one["workers"]) for one in self.members)

    @property
    def slots(self) -> int:
        return sum(len(one["workers"]) * one["slots"] for one in self.members)

    @property
    def services(self) -> str:
        return ", ".join(one["service"] for one in self.members)


class ClientKeyRows(TeamOwned["ClientKey"]):
    team_path = "team"


class ClientKey(TeamRow):
    """A key with which clients use services of a team through a gateway. Its text is not kept."""

    prefix = models.CharField(max_length=20, editable=False)
    """First characters of the text."""
    secret_hash = models.CharField(max_length=64, unique=True, editable=False)
    state = models.CharField(max_length=20, choices=TokenState.choices, default=TokenState.ACTIVE)
    services = models.JSONField(default=list, blank=True)
    """Names of services and abilities; empty: all of the team."""
    requests_per_minute = models.PositiveIntegerField(null=True, blank=True)
    tokens_per_minute = models.PositiveIntegerField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, editable=False)

    objects = ClientKeyRows.as_manager()

    class Meta(TeamRow.Meta):
        pass

    @property
    def opens(self) -> str:
        """The names of what it opens, in one line."""
        return ", ".join(self.services) or _("all of the team")


class WatchedRoute(Reconciled):
    """A route whose traffic somebody watches at a web of another host than the gateway's: the row is the
    question, and the latest answer."""

    route = models.OneToOneField(Route, on_delete=models.CASCADE, related_name="+")
    wanted_until = models.DateTimeField()
    """Whoever watches says so again and again."""
    counts = models.JSONField(null=True)
    """As in `TrafficReading`."""
    in_flight = models.JSONField(default=dict)
    """By target."""
    counted_at = models.DateTimeField(null=True)
    problem = models.TextField(blank=True)
    """Why there is no later answer, in words."""

    class Meta(Reconciled.Meta):
        pass

    def __str__(self) -> str:
        return f"traffic of {self.route}"


class LoadHour(models.Model):
    """Load of one service in one hour, kept for a week; `gateway.load_hours` writes and reads it."""

    route = models.ForeignKey(Route, on_delete=models.CASCADE, related_name="+")
    hour = models.PositiveBigIntegerField()
    """Whole hours since 1970."""
    document = models.JSONField(default=dict)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["route", "hour"], name="one_load_an_hour")]

    def __str__(self) -> str:
        return f"{self.route}: {self.hour}"


class TrafficReading(models.Model):
    """Counts of one route in one minute; `gateway.history` reads it."""

    route = models.ForeignKey(Route, on_delete=models.CASCADE, related_name="+")
    minute = models.PositiveBigIntegerField()
    """Whole minutes since 1970."""
    at = models.DateTimeField()
    counts = models.JSONField()
    """By target, cumulative, as `gateway.history.packed` writes it."""
    figures = models.JSONField(default=dict)
    """The same of what the workers of a team's own code count, as `packed_figures` writes it."""
    clients = models.JSONField(default=dict, blank=True, db_default=models.Value({}, models.JSONField()))
    """The same by key of the clients, with tokens, as `packed_clients` writes it."""
    earlier = models.BinaryField(null=True)
    """The readings of the same hour before it, as `gateway.history.packed_hour` writes them; None: they have
    rows of their own, because the hour is of the last day."""

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["route", "minute"], name="one_reading_a_minute")
        ]
        indexes: ClassVar = [models.Index(fields=["minute"], name="reading_by_age")]

    def __str__(self) -> str:
        return f"{self.at:%H:%M}"
