from typing import ClassVar, cast

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from common.reconcile import Singleton
from common.sealed import CannotUnseal, seal, unseal
from gateway.routes import Fence, ReleaseHeader, RouteSpec, Target

KEY_PURPOSE = "release-key"


def default_release_header() -> str:
    """What a service begins with, until a person sets it otherwise."""
    return str(settings.SLIPWAY_RELEASE_HEADER)


def sealed_key(key: str) -> str:
    return seal(key, purpose=KEY_PURPOSE) if key else ""


def opened_key(sealed: str) -> str:
    """Empty where there is none or it cannot be read any more: then nobody chooses a side."""
    try:
        return unseal(sealed, purpose=KEY_PURPOSE) if sealed else ""
    except CannotUnseal:
        return ""


class Route(models.Model):
    """What the gateway is to do for one service: the wish, who wrote it last, and what was seen of it.

    A removed route stays as a row, because its fence must outlive it.
    """

    service = models.CharField(max_length=128, unique=True)
    stable_target = models.CharField(max_length=128)
    stable_version = models.CharField(max_length=400)
    candidate_target = models.CharField(max_length=128, blank=True)
    candidate_version = models.CharField(max_length=400, blank=True)
    candidate_percent = models.PositiveSmallIntegerField(default=0)
    release_header = models.CharField(max_length=10, default=default_release_header)
    """Who may choose a side by `x-release`: `gateway.routes.ReleaseHeader`."""
    sealed_release_key = models.TextField(blank=True)
    writer = models.PositiveBigIntegerField()
    """Id of the release that wrote it last; 0 for the service itself."""
    writer_turn = models.PositiveBigIntegerField()
    changed_at = models.DateTimeField()
    removed_at = models.DateTimeField(null=True)
    applied_at = models.DateTimeField(null=True)
    """When the gateway took the present wish; None while it has not."""
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
            stable=Target(self.stable_target, self.stable_version),
            candidate=Target(self.candidate_target, self.candidate_version)
            if self.candidate_target
            else None,
            candidate_percent=self.candidate_percent,
            release_header=cast("ReleaseHeader", self.release_header),
            release_key=self.release_key,
        )

    @property
    def release_key(self) -> str:
        return opened_key(self.sealed_release_key)


class Watch(Singleton):
    """Keeps the gateway to its routes, and remembers how it was last seen."""

    seen_at = models.DateTimeField(null=True)
    is_healthy = models.BooleanField(default=False)
    detail = models.TextField(blank=True)
    """The gateway's health in words."""

    class Meta(Singleton.Meta):
        pass

    def __str__(self) -> str:
        return "gateway"


class Recorder(Singleton):
    """Has the traffic written down every minute."""

    class Meta(Singleton.Meta):
        pass

    def __str__(self) -> str:
        return "traffic"


class TrafficReading(models.Model):
    """What the gateway had counted of one route in one minute; `gateway.history` reads it."""

    route = models.ForeignKey(Route, on_delete=models.CASCADE, related_name="+")
    minute = models.PositiveBigIntegerField()
    """Whole minutes since 1970."""
    at = models.DateTimeField()
    counts = models.JSONField()
    """By target, cumulative, as `gateway.history.packed` writes it."""

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["route", "minute"], name="one_reading_a_minute")
        ]
        indexes: ClassVar = [models.Index(fields=["minute"], name="reading_by_age")]

    def __str__(self) -> str:
        return f"{self.at:%H:%M}"
