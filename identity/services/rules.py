"""Group rules: who may write them, what they must be, and their effect on the people who are known."""

from collections.abc import Sequence
from typing import Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from accounts.models import Team
from accounts.services.rights import require_everywhere
from accounts.states import Right, Role
from common.actor import Actor
from common.audit import record
from common.characters import hidden
from common.errors import Conflict, Invalid
from common.texts import hidden_fault
from identity.models import GroupRule, Identity
from identity.patterns import MAX_PATTERN, fixed_part
from identity.services.sign_on import apply_rules

LEAST_FIXED = 3
"""Characters that a pattern must begin with to make anybody an administrator."""


def create_rule(
    *, actor: Actor, pattern: str, team: Team | None = None, role: str = "", reason: str = ""
) -> GroupRule:
    """Members of groups that fit the pattern have the role in the team; without a team they administer the
    installation. People who are known get it at once.

    Raises NotAdministrator, Invalid, Conflict for a second rule about the same.
    """
    require_everywhere(actor, Right.PEOPLE_ADMIN)
    rule = GroupRule(pattern=pattern.strip(), team=team, role=role, created_by=actor.name)
    _validate(rule)
    try:
        with transaction.atomic():
            rule.save(force_insert=True)
            _record(actor, "group_rule.create", rule, reason)
            apply_to_known(actor=actor)
    except IntegrityError:
        raise Conflict(_("There is a rule for this group and team already. Change that one.")) from None
    return rule


def change_rule(
    *, actor: Actor, rule: GroupRule, expected: int | None = None, reason: str = "", **changed: Any
) -> GroupRule:
    """Change `pattern`, `team`, `role`. Raises NotAdministrator, Invalid, Stale, Conflict."""
    require_everywhere(actor, Right.PEOPLE_ADMIN)
    for name, value in changed.items():
        setattr(rule, name, value.strip() if isinstance(value, str) else value)
    _validate(rule)
    values = {name: getattr(rule, name) for name in changed}
    try:
        with transaction.atomic():
            rule.change(expected=expected, **values)
            _record(actor, "group_rule.change", rule, reason)
            apply_to_known(actor=actor)
    except IntegrityError:
        raise Conflict(_("There is a rule for this group and team already. Change that one.")) from None
    return rule


def delete_rule(*, actor: Actor, rule: GroupRule, expected: int | None = None, reason: str = "") -> None:
    """Delete a rule; roles that only it gave are taken away at once. Raises NotAdministrator, Stale."""
    require_everywhere(actor, Right.PEOPLE_ADMIN)
    with transaction.atomic():
        rule.change(expected=expected)
        _record(actor, "group_rule.delete", rule, reason)
        GroupRule.objects.filter(pk=rule.pk).delete()
        apply_to_known(actor=actor)


def apply_to_known(*, actor: Actor) -> None:
    """Inside a transaction: a change of rules counts for whoever is known, not at their next sign-in only."""
    for identity in Identity.objects.select_related("user").order_by("user_id"):
        apply_rules(identity, actor=actor, reason="Group rules were changed")


def parsed_groups(text: str) -> Sequence[str]:
    """Names, one a line or between commas."""
    return [name for name in (one.strip() for one in text.replace("\n", ",").split(",")) if name]


def _validate(rule: GroupRule) -> None:
    faults: dict[str, list[str]] = {}
    if not rule.pattern:
        faults["pattern"] = [_("Name a group, such as platform-admins or ml-*.")]
    elif found := hidden(rule.pattern):
        faults["pattern"] = [hidden_fault(found)]
    elif len(rule.pattern) > MAX_PATTERN:
        faults["pattern"] = [_("Use at most %(most)s characters.") % {"most": MAX_PATTERN}]
    if rule.team is not None and rule.role not in Role.values:
        faults["role"] = [_("Choose a role in the team.")]
    if rule.team is None and rule.role:
        faults["team"] = [_("Name the team of the role, or leave the role out for administrators.")]
    powerful = rule.team is None or rule.role == Role.ADMIN
    if powerful and "*" in rule.pattern and len(fixed_part(rule.pattern)) < LEAST_FIXED:
        faults["pattern"] = [
            _(
                "A rule for admins needs at least %(least)s characters before a *, or it fits groups that "
                "others name."
            )
            % {"least": LEAST_FIXED}
        ]
    if faults:
        raise Invalid(fields=faults)


def _record(actor: Actor, action: str, rule: GroupRule, reason: str) -> None:
    detail = {"pattern": rule.pattern, "team": rule.team.name if rule.team else "", "role": rule.role}
    record(
        actor, action, subject=rule, reason=reason, detail=detail, team_id=rule.team.pk if rule.team else None
    )
