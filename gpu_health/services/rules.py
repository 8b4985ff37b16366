"""Every write to the rules of the installation."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from accounts.services.rights import require_everywhere
from accounts.states import Right
from common import audit
from common.actor import Actor
from common.errors import Stale
from common.reconcile import kernel
from gpu_health import selectors
from gpu_health.errors import InvalidRule, RuleMissing, WaitsForSecondPerson
from gpu_health.models import JudgingAnew, RuleChange
from gpu_health.policy.rule import BadRule, FaultRule, Mode, RemediationAction
from gpu_health.services.healing import stored_policy
from gpu_health.services.second_person import agreed

PLAIN: Mapping[str, Any] = {
    "enabled": True,
    "mode": "propose",
    "severity": "warning",
    "conditions": "",
    "ladder": (),
    "drain": "none",
    "verification": "none",
}
"""A new rule where nothing else is said."""
CHANGEABLE = ("enabled", "mode", "severity", "conditions", "ladder", "drain", "verification")


def proposed_rule(name: str, given: Mapping[str, Any]) -> tuple[FaultRule, dict[str, Any]]:
    """The rule as it would be, and its columns; what is not given stays. Raises RuleMissing, InvalidRule."""
    present = selectors.rule_in_force(name)
    values = {column: given.get(column, getattr(present.row, column)) for column in CHANGEABLE}
    _check_ladder(values["ladder"])
    row = RuleChange(name=name, **values)
    try:
        if present.is_own:
            row.fault, row.changed_by, row.reason = (
                present.rule.fault,
                present.row.changed_by,
                present.row.reason,
            )
            return row.own_rule(), values
        return row.rule(present.original), values
    except BadRule as error:
        raise InvalidRule(str(error)) from None


def new_rule(given: Mapping[str, Any], *, by: str = "", reason: str = "") -> RuleChange:
    """Return an unstored rule of the installation's own, named after its fault. Raises InvalidRule."""
    fault = str(given.get("fault", "")).strip()
    row = RuleChange(
        name=_free_name(fault),
        fault=fault,
        changed_by=by,
        reason=reason,
        **{name: given.get(name, default) for name, default in PLAIN.items()},
    )
    _check_ladder(row.ladder)
    try:
        row.own_rule()
    except BadRule as error:
        field = "fault" if "fault" in str(error) else "ladder" if "ladder" in str(error) else ""
        raise (InvalidRule(fields={field: [str(error)]}) if field else InvalidRule(str(error))) from None
    return row


def add_rule(*, actor: Actor, given: Mapping[str, Any], reason: str) -> RuleChange:
    """Raises NotAllowed, InvalidRule, Stale."""
    require_everywhere(actor, Right.FLEET_OPERATE)
    row = new_rule(given, by=actor.name, reason=reason)
    _ask_second_person(actor, f"rule:{row.name}", row.own_rule(), None, given, reason)
    with transaction.atomic():
        try:
            with transaction.atomic():
                row.save()
        except IntegrityError:
            raise Stale(_("Someone else added a rule at the same time. Try again.")) from None
        detail = {"fault": row.fault, **{column: getattr(row, column) for column in CHANGEABLE}}
        audit.record(actor, "gpu_rule.add", subject=row, reason=reason, detail=detail)
        judge_soon()
    return row


def _free_name(fault: str) -> str:
    taken = set(RuleChange.objects.filter(name__startswith=f"own-{fault}").values_list("name", flat=True))
    names = (f"own-{fault}{f'-{number}' if number > 1 else ''}" for number in range(1, len(taken) + 2))
    return next(name for name in names if name not in taken)[:200]


def _check_ladder(ladder: Sequence[str]) -> None:
    """Raises InvalidRule."""
    known = set(map(str, RemediationAction))
    if unknown := [step for step in ladder if step not in known]:
        words = {"step": unknown[0], "known": ", ".join(sorted(known))}
        raise InvalidRule(fields={"ladder": [_("There is no action %(step)s. Known: %(known)s.") % words]})


def change_rule(
    *, actor: Actor, name: str, given: Mapping[str, Any], reason: str, expected: int | None = None
) -> RuleChange:
    """Raises NotAllowed, RuleMissing, InvalidRule, Stale."""
    require_everywhere(actor, Right.FLEET_OPERATE)
    rule, values = proposed_rule(name, given)
    _ask_second_person(actor, f"rule:{name}", rule, selectors.rule_in_force(name).rule, values, reason)
    values |= {"changed_by": actor.name, "changed_at": timezone.now(), "reason": reason}
    with transaction.atomic():
        row = RuleChange.objects.filter(name=name).first()
        if row is not None:
            row.change(expected=expected, **values)
        elif expected not in (None, 0):
            raise Stale(_("The rule was reset meanwhile. Read it again, then repeat the change."))
        else:
            try:
                with transaction.atomic():
                    row = RuleChange.objects.create(name=name, **values)
            except IntegrityError:
                raise Stale(_("Someone else changed the rule at the same time. Read it again.")) from None
        detail = {column: values[column] for column in CHANGEABLE}
        audit.record(actor, "gpu_rule.change", subject=row, reason=reason, detail=detail)
        judge_soon()
    return row


def reset_rule(*, actor: Actor, name: str, reason: str, expected: int | None = None) -> None:
    """Back to what its source says; one of the installation's own is gone then. Raises NotAllowed,
    RuleMissing, Stale."""
    require_everywhere(actor, Right.FLEET_OPERATE)
    row = RuleChange.objects.filter(name=name).first()
    if row is None:
        raise RuleMissing(_("The rule %(name)s already matches its source.") % {"name": name})
    present = selectors.rule_in_force(name)
    _ask_second_person(actor, f"rule:{name}", None, present.rule, {"reset": True}, reason)
    with transaction.atomic():
        rows = RuleChange.objects.filter(pk=row.pk)
        if expected is not None:
            rows = rows.filter(revision=expected)
        audited = str(row)
        if not rows.delete()[0]:
            raise Stale(_("The rule was changed meanwhile. Read it again."))
        deed = "gpu_rule.remove" if row.fault else "gpu_rule.reset"
        audit.record(actor, deed, subject=audited, reason=reason)
        judge_soon()


def _ask_second_person(
    actor: Actor,
    key: str,
    rule: FaultRule | None,
    before: FaultRule | None,
    wanted: Mapping[str, Any],
    reason: str,
) -> None:
    """Unless one person is enough, or another has asked for the same. Raises WaitsForSecondPerson.

    A rule that acts takes two, and so does one that stands before another which acts on the same fault.
    """
    was_acting = before is not None and acts_by_itself(before)
    fault = rule.fault if rule is not None else before.fault if before is not None else ""
    names = {one.name for one in (rule, before) if one is not None}
    others = [one.rule for one in selectors.rules_in_force() if one.rule.fault == fault]
    uncovers = not was_acting and any(acts_by_itself(one) for one in others if one.name not in names)
    if not ((rule is not None and acts_by_itself(rule)) or uncovers):
        return
    with transaction.atomic():
        policy = stored_policy()
        now, changes = agreed(policy, {key: dict(wanted)}, actor)
        policy.change(held_changes=changes)
        if not now:
            detail = {"rule": key.removeprefix("rule:"), **wanted}
            audit.record(actor, "gpu_rule.ask", subject=policy, reason=reason, detail=detail)
    if not now:
        raise WaitsForSecondPerson(
            _("The change is noted. It takes effect when a second person makes the same one: after it "
              "healing acts by itself on %(fault)s.") % {"fault": fault}
        )  # fmt: skip


def acts_by_itself(rule: FaultRule) -> bool:
    return rule.enabled and rule.mode is Mode.ACT


def judge_soon() -> None:
    """Have open findings judged by the present rules. Call inside the transaction that changed them."""
    for row in JudgingAnew.objects.all():
        kernel.wake(row)
