"""What of people's and webhooks' rows is deleted once it has been kept for long enough."""

from datetime import datetime, timedelta
from typing import Any

from axes.models import AccessAttempt, AccessLog
from django.conf import settings
from django.contrib.sessions.models import Session
from django.db.models import Exists, OuterRef, QuerySet
from django.utils.translation import gettext_lazy as _

from accounts.models import WebhookDelivery, WebhookEvent
from accounts.states import OPEN_DELIVERIES
from common.reconcile.pruning import PruningRule, at_rest


def _events(before: datetime) -> QuerySet[WebhookEvent]:
    """Return events that reached every endpoint, or were given up."""
    on_its_way = WebhookDelivery.objects.filter(event=OuterRef("pk"), state__in=OPEN_DELIVERIES)
    rows = at_rest(WebhookEvent.objects.filter(occurred_at__lt=before))
    return rows.exclude(Exists(on_its_way)).order_by("occurred_at")


def _sessions(before: datetime) -> QuerySet[Session]:
    return Session.objects.filter(expire_date__lt=before).order_by("expire_date")


def _attempts(before: datetime) -> QuerySet[Any]:
    """Return attempts that no lockout counts any more."""
    lockout = timedelta(hours=settings.AXES_COOLOFF_TIME)
    rows: QuerySet[Any] = AccessAttempt.objects.filter(attempt_time__lt=before - lockout)
    return rows.order_by("pk")


def _logins(before: datetime) -> QuerySet[Any]:
    rows: QuerySet[Any] = AccessLog.objects.filter(attempt_time__lt=before)
    return rows.order_by("pk")


RULES = (
    PruningRule(
        WebhookEvent,
        _("Webhook events and their deliveries"),
        "SLIPWAY_KEEP_WEBHOOKS_DAYS",
        _events,
        kept=_("Events still queued for an endpoint stay."),
        at_once=100,
    ),
    PruningRule(
        Session,
        _("Sessions"),
        "SLIPWAY_KEEP_SESSIONS_DAYS",
        _sessions,
        kept=_("Sessions that have not expired stay."),
    ),
    PruningRule(AccessAttempt, _("Failed sign-ins"), "SLIPWAY_KEEP_SIGN_INS_DAYS", _attempts),
    PruningRule(
        AccessLog,
        _("Sign-ins"),
        "SLIPWAY_KEEP_SIGN_INS_DAYS",
        _logins,
        kept=_("Their entries in the audit log stay."),
    ),
)
