"""What a release must go through at least, and what a plan lacks of that. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal, Self

from django.utils.translation import gettext_lazy as _
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from releases.judge.rules import IndicatorRules, JudgeRules
from releases.plans.plan import PlanSpec
from releases.plans.step import ApprovalTerms, StepPosition

ApprovalBy = Literal["none", "anyone", "another_person"]
APPROVALS: tuple[ApprovalBy, ...] = ("none", "anyone", "another_person")
ROLES: tuple[Literal["approver", "admin"], ...] = ("approver", "admin")
PERCENT_BEFORE_APPROVAL = 50

TERMS: Mapping[str, Any] = {
    "approval.none": _("no approval"),
    "approval.anyone": _("an approval"),
    "approval.another_person": _("an approval by another person than the requester"),
    "role.approver": _("an approver's approval"),
    "role.admin": _("an admin's approval"),
    "people": _("approvals by %(people)s different people"),
    "lacks.people": _("It does not ask for approvals by %(people)s different people."),
    "approvers": _("an approval by one of: %(names)s"),
    "approvers.nobody": _("an approval, but by nobody whom both team and service name"),
    "fresh_sign_in": _("that approvers have just signed in"),
    "percent": _("at most %(percent)s %% of the traffic before the approval"),
    "judge": _("an analysis step"),
    "plans": _("one of the plans: %(names)s"),
    "return": _("the service's plan for the return of a version that last served over %(days)s days ago"),
    "pinned": _("the plan %(name)s as it is, which a release policy names"),
    "team": _("what its team's policy demands"),
    "header": _("that clients cannot choose the candidate before it is approved or judged"),
    "plans.none": _("no plan that both team and service allow"),
    "lacks.approval": _("It asks for no approval."),
    "lacks.another_person": _("It asks for no approval by another person than the requester."),
    "lacks.admin": _("It asks for no admin's approval."),
    "lacks.certain_approval": _("Its approval is skipped when the candidate passes the analysis."),
    "lacks.early_approval": _(
        "It gives the candidate %(percent)s %% of the traffic before the approval, more than %(most)s %%."
    ),
    "lacks.judge": _("It has no analysis step."),
    "lacks.evidence": _("Its analysis step continues without enough evidence."),
    "lacks.judging": _("The judge is not heeded while it waits for the approval."),
    "lacks.strictness": _(
        "Its analysis is less strict than allowed: %(rule)s is %(value)s; the limit is %(limit)s."
    ),
    "step": _("a step %(step)s that the candidate must pass"),
    "lacks.step": _("It has no step %(step)s that the candidate must pass."),
    "lacks.plan": _("It is none of the plans that are allowed: %(names)s."),
}


@dataclass(frozen=True, slots=True)
class PolicyTerm:
    """A demand of a policy, or what lacks of it; `str` says it in the reader's language."""

    kind: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return str(TERMS[self.kind]) % self.values

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        return cls(document["kind"], document["values"])


Names = Annotated[
    tuple[Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=150)], ...],
    Field(max_length=50),
]


class ReleasePolicy(BaseModel):
    """The least that a release has to go through before all traffic goes to its version."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    approval: ApprovalBy = Field(
        default="none", description="Who must approve; another_person = not the one who started the release."
    )
    role: Literal["approver", "admin"] = Field(
        default="approver", description="The role in the service's team that the approver must have."
    )
    people: Annotated[int, Field(strict=True, ge=1, le=10)] = Field(
        default=1, description="How many different people must approve."
    )
    approvers: Names | None = Field(
        default=None, description="Names of the people one of whom must approve; null: whoever has the right."
    )
    percent_before_approval: Annotated[int, Field(strict=True, ge=1, le=100)] | None = Field(
        default=None,
        description="The most of the traffic that the candidate may have before the approval, in percent; "
        "null: as much as the service's plan gives, at least 50.",
    )
    judge: Annotated[bool, Field(strict=True)] = Field(
        default=False, description="The candidate must be judged before it is promoted."
    )
    steps: Names | None = Field(
        default=None,
        description="Kinds of steps that the candidate must pass, such as evaluate; null: none.",
    )
    plans: Names | None = Field(default=None, description="Names of the plans that are allowed; null: any.")
    fresh_sign_in: Annotated[bool, Field(strict=True)] = Field(
        default=False,
        description="Approvers must have signed in within the last five minutes, and approve in the browser.",
    )
    return_within_days: Annotated[int, Field(strict=True, ge=0, le=3650)] | None = Field(
        default=None,
        description="A version that served within so many days may return without canary and approval; "
        "0: none may; null: every version that ever served.",
    )

    def to_dict(self) -> dict[str, Any]:
        """Leave out what the release before does not know."""
        later = {"people": 1, "steps": None, "fresh_sign_in": False, "return_within_days": None}
        document = self.model_dump(mode="json")
        return {key: value for key, value in document.items() if later.get(key, ...) != value}


NOTHING = ReleasePolicy()


def stricter(one: ReleasePolicy, other: ReleasePolicy) -> ReleasePolicy:
    """The least that satisfies both."""
    return ReleasePolicy(
        approval=max(one.approval, other.approval, key=APPROVALS.index),
        role=max(one.role, other.role, key=ROLES.index),
        people=max(one.people, other.people),
        approvers=_both(one.approvers, other.approvers),
        percent_before_approval=min(
            (
                policy.percent_before_approval
                for policy in (one, other)
                if policy.percent_before_approval is not None
            ),
            default=None,
        ),
        judge=one.judge or other.judge,
        steps=tuple(sorted({*(one.steps or ()), *(other.steps or ())})) or None,
        plans=_both(one.plans, other.plans),
        fresh_sign_in=one.fresh_sign_in or other.fresh_sign_in,
        return_within_days=min(
            (policy.return_within_days for policy in (one, other) if policy.return_within_days is not None),
            default=None,
        ),
    )


def demanded_by(plan: PlanSpec) -> ReleasePolicy:
    """Return what the plan itself ensures: a service whose plan it is demands no less of other plans."""
    approvals = [(index, step) for index, step in _approvals(plan) if step.when == "always"]
    judge = not _judge_lacks(plan)
    if not approvals:
        return ReleasePolicy(judge=judge)
    index, step = max(approvals, key=_strength)
    percent = _percent_before(plan, index)
    return ReleasePolicy(
        approval="another_person" if step.separate_requester else "anyone",
        role=step.role,
        people=step.people,
        percent_before_approval=percent if percent > PERCENT_BEFORE_APPROVAL else None,
        judge=judge,
    )


def shortfalls(plan: PlanSpec, policy: ReleasePolicy) -> tuple[PolicyTerm, ...]:
    """Return what the plan lacks of what is demanded; empty when it may be followed."""
    found: list[PolicyTerm] = []
    if policy.plans is not None and plan.name not in policy.plans:
        found.append(PolicyTerm("lacks.plan", {"names": ", ".join(policy.plans)}))
    if policy.approval != "none":
        found += _approval_lacks(plan, policy)
    if policy.judge:
        found += _judge_lacks(plan)
    passed = {step.kind for step in plan.steps if step.must_pass}
    found += [PolicyTerm("lacks.step", {"step": kind}) for kind in policy.steps or () if kind not in passed]
    return tuple(found)


def demands(policy: ReleasePolicy) -> tuple[PolicyTerm, ...]:
    """The policy, one thing after the other; empty when it demands nothing."""
    found: list[PolicyTerm] = []
    if policy.approval != "none":
        found.append(PolicyTerm(f"approval.{policy.approval}"))
        if policy.role == "admin":
            found.append(PolicyTerm("role.admin"))
        if policy.people > 1:
            found.append(PolicyTerm("people", {"people": policy.people}))
        if policy.approvers is not None:
            found.append(_names("approvers", "approvers.nobody", policy.approvers))
        found.append(PolicyTerm("percent", {"percent": _most_percent(policy)}))
        if policy.fresh_sign_in:
            found.append(PolicyTerm("fresh_sign_in"))
    if policy.judge:
        found.append(PolicyTerm("judge"))
    found += [PolicyTerm("step", {"step": kind}) for kind in policy.steps or ()]
    if policy.plans is not None:
        found.append(_names("plans", "plans.none", policy.plans))
    if policy.return_within_days is not None:
        found.append(PolicyTerm("return", {"days": policy.return_within_days}))
    return tuple(found)


def guards_candidate(policy: ReleasePolicy) -> bool:
    """Whether something has to be seen of the candidate before it gets all traffic: clients that choose it by
    a header of their own would go past that.
    """
    return policy.approval != "none" or policy.judge


def lowered(before: ReleasePolicy, after: ReleasePolicy) -> tuple[PolicyTerm, ...]:
    """Return what `before` demanded and `after` no longer does; empty when nothing became easier."""
    joined = stricter(before, after)
    return tuple(term for term in demands(joined) if term not in demands(after))


def _approval_lacks(plan: PlanSpec, policy: ReleasePolicy) -> list[PolicyTerm]:
    approvals = _approvals(plan)
    if not approvals:
        return [
            PolicyTerm("lacks.another_person" if policy.approval == "another_person" else "lacks.approval")
        ]
    if policy.approval == "another_person":
        approvals = [one for one in approvals if one[1].separate_requester]
        if not approvals:
            return [PolicyTerm("lacks.another_person")]
    if policy.role == "admin":
        approvals = [one for one in approvals if one[1].role == "admin"]
        if not approvals:
            return [PolicyTerm("lacks.admin")]
    approvals = [one for one in approvals if one[1].people >= policy.people]
    if not approvals:
        return [PolicyTerm("lacks.people", {"people": policy.people})]
    certain = [one for one in approvals if one[1].when == "always"]
    if not certain:
        return [PolicyTerm("lacks.certain_approval")]
    percent, most = _percent_before(plan, certain[0][0]), _most_percent(policy)
    return [PolicyTerm("lacks.early_approval", {"percent": percent, "most": most})] if percent > most else []


def _most_percent(policy: ReleasePolicy) -> int:
    return policy.percent_before_approval or PERCENT_BEFORE_APPROVAL


def _approvals(plan: PlanSpec) -> list[tuple[int, ApprovalTerms]]:
    return [(index, step.approval) for index, step in enumerate(plan.steps) if step.approval is not None]


def _strength(numbered: tuple[int, ApprovalTerms]) -> tuple[bool, int, int, int]:
    """Return what a numbered approval step is compared by."""
    index, step = numbered
    return step.separate_requester, ROLES.index(step.role), step.people, -index


def _percent_before(plan: PlanSpec, index: int) -> int:
    return StepPosition(plan.steps, index).exposed_percent


LENIENT: Sequence[tuple[str, float]] = (
    ("roll_back_above_ratio", 5.0),
    ("roll_back_min_percent", 5.0),
    ("promote_below_ratio", 10.0),
    ("promote_below_percent", 10.0),
)
"""Above these a judge step passes what anybody would call broken: it counts as none."""
LEAST_FALSE_ROLL_BACK_PERCENT = 0.1
LEAST_REQUESTS = 20
MOST_FALSE_PROMOTE_PERCENT = 20.0
MOST_ABORT_PERCENT = 75.0


def _judge_lacks(plan: PlanSpec) -> list[PolicyTerm]:
    steps = [step.analysis for step in plan.steps if step.analysis is not None]
    if not steps:
        return [PolicyTerm("lacks.judge")]
    found = list(_lenient(plan.judge))
    if all(step.on_insufficient == "promote" for step in steps):
        found.append(PolicyTerm("lacks.evidence"))
    if not all(step.keep_judging for _index, step in _approvals(plan)):
        found.append(PolicyTerm("lacks.judging"))
    return found


def _lenient(rules: JudgeRules) -> list[PolicyTerm]:
    at_most = [
        (f"judge.{name}.{rule}", getattr(one, rule), limit)
        for name, one in _indicators(rules)
        for rule, limit in LENIENT
    ]
    at_most += [
        ("judge.false_promote_percent", rules.false_promote_percent, MOST_FALSE_PROMOTE_PERCENT),
        ("judge.abort_above_percent", rules.abort_above_percent, MOST_ABORT_PERCENT),
    ]
    at_least = [
        ("judge.false_roll_back_percent", rules.false_roll_back_percent, LEAST_FALSE_ROLL_BACK_PERCENT),
        ("judge.min_requests", rules.min_requests, LEAST_REQUESTS),
    ]
    found = [_strictness(*one, "≤") for one in at_most if one[1] is not None and one[1] > one[2]]
    return found + [_strictness(*one, "≥") for one in at_least if one[1] < one[2]]


def _indicators(rules: JudgeRules) -> list[tuple[str, IndicatorRules]]:
    return list(rules.judged.items())


def _strictness(rule: str, value: float, limit: float, sign: str) -> PolicyTerm:
    return PolicyTerm("lacks.strictness", {"rule": rule, "value": f"{value:g}", "limit": f"{sign} {limit:g}"})


def _names(some: str, none: str, names: Sequence[str]) -> PolicyTerm:
    return PolicyTerm(some, {"names": ", ".join(names)}) if names else PolicyTerm(none)


def _both(one: tuple[str, ...] | None, other: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if one is None or other is None:
        return other if one is None else one
    return tuple(sorted(set(one) & set(other)))
