"""Retention rules: they delete only after somebody has seen what would go."""

from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from accounts.services.rights import require
from accounts.states import Right
from common import audit, texts
from common.actor import Actor
from common.errors import Invalid, WrongState
from common.reconcile import kernel
from model_store.errors import RunUnderWay
from models_registry.errors import PreviewOutdated
from models_registry.models import Model, RetentionRule
from models_registry.selectors import retention

MOST_VERSIONS, MOST_DAYS = 10_000, 3_650


def set_retention(
    *,
    actor: Actor,
    model: Model,
    keep_last: int,
    keep_days: int = 0,
    reason: str = "",
    expected: int | None = None,
) -> RetentionRule:
    """Give the model a rule, or change it. It waits until it is applied: what ran daily stops.

    Raises NotAllowed, Invalid, Stale.
    """
    require(actor, Right.MODELS_WRITE, model.team)
    why = texts.reason(reason)
    limits = {
        "keep_last": _number("keep_last", keep_last, least=1, most=MOST_VERSIONS),
        "keep_days": _number("keep_days", keep_days, least=0, most=MOST_DAYS),
    }
    told = {"changed_at": timezone.now(), "changed_by_name": actor.name}
    with transaction.atomic():
        try:
            with transaction.atomic():
                rule = RetentionRule.objects.create(model=model, **limits, **told)
        except IntegrityError:
            rule = retention.retention_rule(model)
            rule.change(expected=expected, **limits, **told)
            kernel.interrupt(rule, asked=None, is_daily=False, due_at=None)
        audit.record(actor, "retention.set", subject=rule, reason=why, detail=limits, team_id=model.team_id)
    rule.refresh_from_db()
    return rule


def apply_retention(
    *, actor: Actor, rule: RetentionRule, preview: str, daily: bool = False, reason: str = ""
) -> RetentionRule:
    """Delete what a preview of that fingerprint has shown; with `daily` also what falls under the rule later,
    once a day.

    Raises NotAllowed, RunUnderWay, Unseen when something else would go by now.
    """
    require(actor, Right.MODELS_WRITE, rule.model.team)
    why = texts.reason(reason)
    now = timezone.now()
    with transaction.atomic():
        seen = retention.retention_preview(rule, now)
        if seen.fingerprint != preview:
            raise PreviewOutdated(
                _("The versions to delete have changed since the preview. Check the preview again.")
            )
        asked = {"versions": [version.pk for version in seen.going], "by": actor.name, "reason": why}
        wish: dict[str, Any] = {"asked": asked} | ({"is_daily": True, "due_at": now} if daily else {})
        if not kernel.wake(rule, where={"asked__isnull": True, "revision": rule.revision}, **wish):
            raise RunUnderWay(_("The retention rule is being applied, or was changed, just now. Look again."))
        audit.record(
            actor,
            "retention.apply",
            subject=rule,
            reason=why,
            detail={"versions": [version.name for version in seen.going], "daily": daily},
            team_id=rule.model.team_id,
        )
    rule.refresh_from_db()
    return rule


def stop_retention(*, actor: Actor, rule: RetentionRule, reason: str = "") -> RetentionRule:
    """Delete nothing more; the rule stays. Raises NotAllowed, WrongState."""
    require(actor, Right.MODELS_WRITE, rule.model.team)
    why = texts.reason(reason)
    if not rule.is_daily and rule.asked is None:
        raise WrongState(_("The retention rule is not being applied."))
    with transaction.atomic():
        kernel.interrupt(rule, asked=None, is_daily=False, due_at=None)
        audit.record(actor, "retention.stop", subject=rule, reason=why, team_id=rule.model.team_id)
    rule.refresh_from_db()
    return rule


def delete_retention(
    *, actor: Actor, rule: RetentionRule, reason: str = "", expected: int | None = None
) -> None:
    """Keep every version from now on. Raises NotAllowed, Stale."""
    require(actor, Right.MODELS_WRITE, rule.model.team)
    why = texts.reason(reason)
    with transaction.atomic():
        rule.change(expected=expected)
        audit.record(actor, "retention.delete", subject=rule, reason=why, team_id=rule.model.team_id)
        rule.delete()


def _number(field: str, value: int, *, least: int, most: int) -> int:
    if not least <= value <= most:
        raise Invalid(
            fields={
                field: [
                    _("A whole number from %(least)s to %(most)s.") % {"least": least, "most": f"{most:,}"}
                ]
            }
        )
    return value
