from typing import ClassVar

from django.db import models

from common import clock
from common.reconcile import Singleton
from common.revisions import Revised
from gpu_health.policy.presets import conditions_of
from gpu_health.policy.rule import (
    Citation,
    DrainLevel,
    FaultRule,
    Mode,
    RemediationAction,
    Severity,
    Verification,
)
from gpu_health.states import (
    DrainScope,
    FindingSeverity,
    RuleMode,
    RuleVerification,
)


class RuleChange(Revised):
    """A rule that somebody has changed, in the place of the preset's of the same name; or one more."""

    name = models.CharField(max_length=200, unique=True)
    fault = models.CharField(max_length=120, blank=True, editable=False)
    """Of a rule that the installation has added; blank: it changes a preset's."""
    enabled = models.BooleanField(default=True)
    mode = models.CharField(max_length=10, choices=RuleMode.choices)
    severity = models.CharField(max_length=20, choices=FindingSeverity.choices)
    conditions = models.CharField(max_length=500, blank=True)
    """As `policy.presets` writes them: `count=2 window_seconds=86400 same=gpc+tpc`."""
    ladder = models.JSONField(default=list)
    drain = models.CharField(max_length=10, choices=DrainScope.choices)
    verification = models.CharField(max_length=30, choices=RuleVerification.choices)
    changed_by = models.CharField(max_length=200, editable=False)
    changed_at = models.DateTimeField(default=clock.now, editable=False)
    reason = models.TextField(blank=True, editable=False)

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name

    def rule(self, original: FaultRule) -> FaultRule:
        """Return the rule that replaces `original` and keeps its source. Raises BadRule."""
        return self._rule(
            fault=original.fault,
            citation=Citation(source=original.citation.source, says=original.citation.says, is_inferred=True),
        )

    def own_rule(self) -> FaultRule:
        """Return this row as a rule that the installation has added. Raises BadRule."""
        says = self.reason or "a rule of this installation"
        citation = Citation(source=self.changed_by, says=says[:400])
        return self._rule(fault=self.fault, citation=citation, is_own=True)

    def _rule(self, *, fault: str, citation: Citation, is_own: bool = False) -> FaultRule:
        return FaultRule(
            name=self.name,
            fault=fault,
            conditions=conditions_of(self.conditions),
            severity=Severity(self.severity),
            ladder=tuple(map(RemediationAction, self.ladder)),
            drain=DrainLevel(self.drain),
            verification=Verification(self.verification),
            mode=Mode(self.mode),
            enabled=self.enabled,
            citation=citation,
            is_own=is_own,
        )


class JudgingAnew(Singleton):
    """The row whose reconciler judges open findings anew after the rules have changed."""

    class Meta(Singleton.Meta):
        pass

    def __str__(self) -> str:
        return "judging by changed rules"
