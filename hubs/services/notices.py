"""Notices of a hub that a repository has changed, from whoever knows the source's secret."""

import hashlib
import secrets
from datetime import timedelta

from django.db import transaction
from django.utils.crypto import constant_time_compare
from django.utils.translation import gettext as _

from accounts.services.rights import require
from accounts.states import Right
from common import audit
from common.actor import Actor
from common.reconcile import kernel
from hubs.errors import UnknownHubSource
from hubs.models import HubSource

GATHER = timedelta(seconds=5)
"""One push makes several notices."""


def new_notice_secret(*, actor: Actor, source: HubSource) -> str:
    """The secret that notices must carry from now on, instead of any before. Raises NotAllowed."""
    require(actor, Right.MODELS_WRITE, source.model.team)
    secret = secrets.token_urlsafe(32)
    with transaction.atomic():
        source.change(notice_hash=_hash(secret))
        audit.record(actor, "hub-source.notice-secret", subject=source, team_id=source.model.team_id)
    return secret


def take_notice(*, source_id: int, secret: str) -> None:
    """Look at the repository in a moment. Raises UnknownHubSource, for a wrong secret as well."""
    source = HubSource.objects.live().exclude(notice_hash="").filter(pk=source_id).first()
    if source is None or not constant_time_compare(_hash(secret), source.notice_hash):
        raise UnknownHubSource(_("There is no such source, or this is not its secret."))
    due_at = kernel.clock() + GATHER
    if source.due_at is None or source.due_at > due_at:
        kernel.wake(source, due_at=due_at, is_noticed=True)


def _hash(secret: str) -> str:
    """Hash a secret of 256 random bits: too many to guess, so a plain hash protects them."""
    return hashlib.sha256(secret.encode()).hexdigest()
