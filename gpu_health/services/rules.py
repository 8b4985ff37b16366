"""Every write to the rules of the installation."""

from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from accounts.services.rights import require_everywhere
from accounts.states import Right
from common import audit
from common.actor import Actor
from common.errors import Stale
from gpu_health import selectors
from gpu_health.errors import InvalidRule, RuleMissing
from gpu_health.models import RuleChange
from gpu_health.policy.rule import Action, BadRule, Rule

CHANGEABLE = ("enabled", "mode", "severity", "conditions", "ladder", "drain", "verification")


def proposed_rule(name: str, given: Mapping[str, Any]) -> tuple[Rule, dict[str, Any]]:
    """The rule as it would be, and its columns; what is not given stays. Raises RuleMissing, InvalidRule."""
    present = selectors.rule_in_force(name)
    values = {column: given.get(column, getattr(present.row, column)) for column in CHANGEABLE}
    known = set(map(str, Action))
    if unknown := [step for step in values["ladder"] if step not in known]:
        raise InvalidRule(
            fields={
                "ladder": [
                    _("There is no action %(step)s. Known: %(known)s.")
                    % {"step": unknown[0], "known": ", ".join(sorted(known))}
                ]
            }
        )
    try:
        return RuleChange(name=name, **values).rule(present.original), values
    except BadRule as error:
        raise InvalidRule(str(error)) from None


def change_rule(
    *, actor: Actor, name: str, given: Mapping[str, Any], reason: str, expected: int | None = None
) -> RuleChange:
    """Raises NotAllowed, RuleMissing, InvalidRule, Stale."""
    require_everywhere(actor, Right.FLEET_OPERATE)
    _rule, values = proposed_rule(name, given)
    values |= {"changed_by": actor.name, "changed_at": timezone.now(), "reason": reason}
    with transaction.atomic():
        row = RuleChange.objects.filter(name=name).first()
        if row is not None:
            row.change(expected=expected, **values)
        elif expected not in (None, 0):
            raise Stale(_("The rule was set back meanwhile. Read it again, then repeat the change."))
        else:
            try:
                with transaction.atomic():
                    row = RuleChange.objects.create(name=name, **values)
            except IntegrityError:
                raise Stale(_("Someone else changed the rule at the same time. Read it again.")) from None
        detail = {column: values[column] for column in CHANGEABLE}
        audit.record(actor, "gpu_rule.change", subject=row, reason=reason, detail=detail)
    return row


def reset_rule(*, actor: Actor, name: str, reason: str, expected: int | None = None) -> None:
    """Back to what its source says. Raises NotAllowed, RuleMissing, Stale."""
    require_everywhere(actor, Right.FLEET_OPERATE)
    row = RuleChange.objects.filter(name=name).first()
    if row is None:
        raise RuleMissing(_("The rule %(name)s is as its source says.") % {"name": name})
    with transaction.atomic():
        rows = RuleChange.objects.filter(pk=row.pk)
        if expected is not None:
            rows = rows.filter(revision=expected)
        audited = str(row)
        if not rows.delete()[0]:
            raise Stale(_("The rule was changed meanwhile. Read it again."))
        audit.record(actor, "gpu_rule.reset", subject=audited, reason=reason)
