"""Webhooks: endpoints of teams, people and the installation, events, and what was sent of them."""

import re
from datetime import datetime
from typing import Any, ClassVar
from urllib.parse import urlsplit

from django.db import models
from django.db.models import Q

from accounts.states import (
    ONLY_BY_NAME,
    OPEN_DELIVERIES,
    SEVERITIES_FROM,
    DeliveryState,
    LeastSeverity,
    WebhookFormat,
)
from common import clock
from common.reconcile import Reconciled
from common.revisions import Revised

_SHORT = 8
"""Characters of a word in a path that are too few for a secret."""
_PLAIN = re.compile(r"[A-Za-z_.-]{1,24}", re.ASCII)


class WebhookEndpoint(Reconciled, Revised):
    """An address that events of a team, of a person's teams or of the whole installation are sent to.

    Its deliveries are a queue that one worker at a time holds, in the lane of its host: a slow receiver
    delays nobody else.
    """

    team = models.ForeignKey(
        "accounts.Team", on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    """Whose events; None: those that the person may see, or everybody's."""
    person = models.ForeignKey(
        "accounts.User", on_delete=models.CASCADE, null=True, blank=True, db_index=False, related_name="+"
    )
    """Whose own endpoint it is; None: one of the team or the installation."""
    teams = models.JSONField(default=list, db_default=[])
    """Names, sorted: the teams whose events alone an endpoint of a person or the installation is sent; empty:
    all."""
    severity = models.CharField(
        max_length=10, choices=LeastSeverity.choices, default=LeastSeverity.ANY, db_default="any"
    )
    url = models.CharField(max_length=2000)
    """`mailto:` alone: the e-mail address of the person's account, as it is when a message goes out."""
    description = models.CharField(max_length=300, blank=True)
    events = models.JSONField(default=list)
    """Names of event types, sorted; empty: every one except those that must be asked for by name."""
    sealed_secret = models.TextField(editable=False)
    sealed_former_secret = models.TextField(blank=True, editable=False)
    former_secret_until = models.DateTimeField(null=True, editable=False)
    """Until when what is sent is signed with the former secret, too."""
    format = models.CharField(
        max_length=20, choices=WebhookFormat.choices, default=WebhookFormat.STANDARD, db_default="standard"
    )
    """Whose messages its receiver takes."""
    language = models.CharField(max_length=10, default="en", db_default="en")
    """Language of its messages' words, unless they are of the standard format."""
    quiet_hours = models.JSONField(null=True, blank=True)
    """`{from, until, zone}`: between these times of the zone's clock messages wait; None: they never do."""
    digest_minutes = models.PositiveSmallIntegerField(default=0, db_default=0)
    """Messages of so many minutes go as one; 0: each by itself."""
    enabled = models.BooleanField(default=True)
    disabled_why = models.TextField(blank=True, editable=False)
    failures = models.PositiveIntegerField(default=0, editable=False)
    """In a row, of whatever was sent."""
    failing_since = models.DateTimeField(null=True, editable=False)
    quiet_until = models.DateTimeField(null=True, editable=False)
    """Nothing is sent before: it has just failed, or asked for patience."""
    delivered_at = models.DateTimeField(null=True, editable=False)
    """Last success."""
    created_at = models.DateTimeField(default=clock.now, editable=False)
    created_by = models.CharField(max_length=200, editable=False)

    class Meta(Reconciled.Meta):
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(team=None) | Q(person=None), name="webhook_of_a_team_or_a_person"
            )
        ]

    def __str__(self) -> str:
        return f"webhook {self.pk} to {self.host}"

    @property
    def destination(self) -> str:
        """The address that messages go to."""
        return f"mailto:{self.person.email}" if self.person and self.url == "mailto:" else self.url

    @property
    def host(self) -> str:
        """Names it without its path, which may hold a secret of the receiver's."""
        return urlsplit(self.url).hostname or self.destination

    @property
    def place(self) -> str:
        """Tells it from others of its host: the port too, and as much of the path's beginning as can be no
        secret of the receiver's; no credentials and no query.
        """
        address = urlsplit(self.destination)
        if address.scheme == "mailto":
            return address.path
        told = address.netloc.rpartition("@")[2]
        words = [word for word in address.path.split("/") if word]
        for number, word in enumerate(words[:2], 1):
            if len(word) > _SHORT and (number == len(words) or not _PLAIN.fullmatch(word)):
                return f"{told}/{word[:4]}…"
            told += f"/{word}"
        return f"{told}/…" if len(words) > 2 else told

    @property
    def condition(self) -> str:
        if not self.enabled:
            return "disabled"
        return "failing" if self.failing_since else "enabled"

    def wants(self, event_type: str, *, team: str | None = "", severity: str = "") -> bool:
        """Whether its rules choose such an event of that team (empty: of none; None: of all teams)."""
        if self.teams and team is not None and team not in self.teams:
            return False
        if severity and severity not in SEVERITIES_FROM[self.severity]:
            return False
        return event_type in self.events or (not self.events and event_type not in ONLY_BY_NAME)


class WebhookEvent(Reconciled):
    """Something happened: noted in its transaction, written out and given to every endpoint after it."""

    key = models.CharField(max_length=40, unique=True, editable=False)
    """The `webhook-id`, by which receivers know what they have seen."""
    type = models.CharField(max_length=60)
    ids = models.JSONField(default=dict)
    occurred_at = models.DateTimeField(db_index=True)
    team = models.ForeignKey(
        "accounts.Team",
        on_delete=models.SET_NULL,
        null=True,
        editable=False,
        db_index=False,
        related_name="+",
    )
    """Whose it is, from when it is written out; None: nobody's."""
    body = models.TextField(blank=True)
    """The JSON that is sent, to the byte; empty until it is written out."""

    class Meta(Reconciled.Meta):
        pass

    def __str__(self) -> str:
        return f"{self.type} {self.key}"


class WebhookDelivery(models.Model):
    """The delivery of an event to an endpoint, with its attempts."""

    endpoint = models.ForeignKey(WebhookEndpoint, on_delete=models.CASCADE, related_name="deliveries")
    event = models.ForeignKey(WebhookEvent, on_delete=models.CASCADE, related_name="+")
    state = models.CharField(
        max_length=20, choices=DeliveryState.choices, default=DeliveryState.PENDING, editable=False
    )
    due_at = models.DateTimeField()
    """When it is tried next, while it is open."""
    tries = models.PositiveIntegerField(default=0, editable=False)
    """Attempts since it was asked for."""
    history = models.JSONField(default=list, editable=False)
    """Every try, oldest first: at, status, milliseconds, answer (its first KiB), error."""
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["endpoint", "event"], name="webhook_delivery_once")
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["endpoint", "due_at"],
                name="webhook_delivery_open",
                condition=Q(state__in=OPEN_DELIVERIES),
            )
        ]

    def __str__(self) -> str:
        return f"{self.event} to {self.endpoint.host}"

    @property
    def next_at(self) -> datetime | None:
        """When it is tried next, which its endpoint may put off; None: not any more."""
        if not self.is_open:
            return None
        return max(self.due_at, self.endpoint.quiet_until or self.due_at)

    @property
    def last_try(self) -> dict[str, Any] | None:
        return self.history[-1] if self.history else None

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_DELIVERIES
