"""What GPU health looks like over REST."""

from typing import Any

from rest_framework import serializers

from common.api.examples import example
from common.audit import MAX_REASON
from gpu_health.api import examples
from gpu_health.models import Finding
from gpu_health.policy.disagreements import SourceComparison
from gpu_health.policy.presets import fault_title, sources
from gpu_health.policy.rule import RemediationAction
from gpu_health.selectors import MEMORY, RuleInForce, RuleTrial
from gpu_health.services.readings import MAX_READINGS
from gpu_health.states import (
    DrainScope,
    FindingOutcome,
    FindingSeverity,
    FindingState,
    RuleMode,
    RuleVerification,
)

LADDER = f"From its first action on, a step when the one before did not help: {', '.join(RemediationAction)}."
CONDITIONS = (
    "`name=value`, separated by spaces: `count`, `window_seconds`, `same` (details, joined by `+`), "
    "`value_at_least`, `value_below`, `alone_seconds`, `driver_at_least`, `driver_below`, `details.NAME`."
)


@example(examples.FINDING)
class GpuFindingSerializer(serializers.ModelSerializer[Finding]):
    cluster = serializers.CharField(source="node.cluster.name")
    node = serializers.CharField(source="node.name")
    title = serializers.CharField()
    device = serializers.CharField(help_text="A GPU by its bus, else by its UUID; empty: the whole machine.")
    severity = serializers.ChoiceField(choices=FindingSeverity.choices)
    outcome = serializers.ChoiceField(choices=FindingOutcome.choices, help_text="What would be done.")
    ladder = serializers.ListField(child=serializers.CharField(), help_text=LADDER)
    drain = serializers.ChoiceField(
        choices=DrainScope.choices, help_text="Whose pods would leave before the first action."
    )
    verification = serializers.ChoiceField(choices=RuleVerification.choices)
    rule = serializers.CharField(help_text="Empty: no rule knows the fault.")
    reasons = serializers.ListField(child=serializers.CharField())
    raw = serializers.CharField(help_text="What the source said last.")
    state = serializers.ChoiceField(choices=FindingState.choices)
    drill = serializers.IntegerField(
        source="drill_id", allow_null=True, help_text="The drill that plays it; null: it is real."
    )

    class Meta:
        model = Finding
        fields = (
            "id",
            "cluster",
            "node",
            "fault",
            "title",
            "device",
            "gpu_uuid",
            "severity",
            "outcome",
            "ladder",
            "drain",
            "verification",
            "rule",
            "citation",
            "reasons",
            "count",
            "first_at",
            "last_at",
            "raw",
            "state",
            "opened_at",
            "ended_at",
            "closed_by",
            "close_reason",
            "drill",
        )


@example(examples.CLOSING)
class GpuClosingSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=MAX_REASON)


@example(examples.RULE)
class GpuRuleSerializer(serializers.Serializer[RuleInForce]):
    name = serializers.CharField()
    fault = serializers.CharField()
    title = serializers.CharField()
    enabled = serializers.BooleanField()
    mode = serializers.ChoiceField(choices=RuleMode.choices)
    severity = serializers.ChoiceField(choices=FindingSeverity.choices)
    conditions = serializers.CharField(help_text=CONDITIONS)
    ladder = serializers.ListField(child=serializers.CharField(), help_text=LADDER)
    drain = serializers.ChoiceField(choices=DrainScope.choices)
    verification = serializers.ChoiceField(choices=RuleVerification.choices)
    source = serializers.CharField(help_text="Document that says so.")  # type: ignore[assignment]
    says = serializers.CharField(help_text="In its own words.")
    is_inferred = serializers.BooleanField(help_text="The source does not name this severity or action.")
    is_changed = serializers.BooleanField(help_text="Somebody of this installation has changed it.")
    is_own = serializers.BooleanField(help_text="Somebody of this installation has added it.")
    changed_by = serializers.CharField()
    changed_at = serializers.DateTimeField(allow_null=True)
    reason = serializers.CharField(help_text="Why it was changed.")

    def to_representation(self, one: RuleInForce) -> dict[str, Any]:
        row, citation = one.row, one.rule.citation
        document = sources().get(citation.source)
        return super().to_representation(
            {  # type: ignore[arg-type]
                "name": row.name,
                "fault": one.rule.fault,
                "title": fault_title(one.rule.fault),
                **{name: getattr(row, name) for name in RuleFieldsSerializer._declared_fields},
                "source": document.title if document else citation.source,
                "says": citation.says,
                "is_inferred": citation.is_inferred,
                "is_changed": one.is_changed,
                "is_own": one.is_own,
                "changed_by": row.changed_by,
                "changed_at": row.changed_at if row.pk else None,
                "reason": row.reason,
            }
        )


class RuleFieldsSerializer(serializers.Serializer[Any]):
    enabled = serializers.BooleanField(required=False)
    mode = serializers.ChoiceField(choices=RuleMode.choices, required=False)
    severity = serializers.ChoiceField(choices=FindingSeverity.choices, required=False)
    conditions = serializers.CharField(required=False, allow_blank=True, max_length=500, help_text=CONDITIONS)
    ladder = serializers.ListField(
        child=serializers.CharField(max_length=40), required=False, max_length=12, help_text=LADDER
    )
    drain = serializers.ChoiceField(choices=DrainScope.choices, required=False)
    verification = serializers.ChoiceField(choices=RuleVerification.choices, required=False)


@example(examples.PROPOSED)
class GpuProposedRuleSerializer(RuleFieldsSerializer):
    """A rule to try; a field that is not given keeps its value."""


@example(examples.RULE_CHANGE)
class GpuRuleChangeSerializer(RuleFieldsSerializer):
    """A change of a rule; a field that is not given keeps its value."""

    reason = serializers.CharField(max_length=MAX_REASON)


FAULT = "Dotted name, such as `xid.79` or `ecc.double_bit`; a rule has no wildcards."


@example(examples.THOUGHT_RULE)
class GpuThoughtRuleSerializer(RuleFieldsSerializer):
    fault = serializers.CharField(max_length=120, help_text=FAULT)


@example(examples.NEW_RULE)
class GpuNewRuleSerializer(RuleFieldsSerializer):
    fault = serializers.CharField(max_length=120, help_text=FAULT)
    reason = serializers.CharField(max_length=MAX_REASON)


@example(examples.PRESET)
class GpuPresetSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    title = serializers.CharField()
    rules = serializers.IntegerField(help_text="With Slipway's for faults that it does not speak of.")
    acting = serializers.IntegerField(help_text="Of these, how many would touch the machine.")
    is_used = serializers.BooleanField(help_text="By the installation.")
    clusters = serializers.ListField(child=serializers.CharField(), help_text="That use it instead.")


@example({"results": [examples.PRESET], "next": None, "previous": None})
class GpuPresetsSerializer(serializers.Serializer[Any]):
    results = GpuPresetSerializer(many=True)
    next = serializers.CharField(allow_null=True)
    previous = serializers.CharField(allow_null=True)


PRESET_CLUSTER = "Name; empty: all clusters without a preset of their own."


@example(examples.PRESET_TRIAL)
class GpuPresetTrialSerializer(serializers.Serializer[Any]):
    preset = serializers.CharField(max_length=40)
    cluster = serializers.CharField(
        max_length=100, required=False, allow_blank=True, help_text=PRESET_CLUSTER
    )


@example(examples.PRESET_CHOICE)
class GpuPresetChoiceSerializer(serializers.Serializer[Any]):
    preset = serializers.CharField(
        max_length=40, allow_blank=True, help_text="Empty: a cluster has the installation's again."
    )
    cluster = serializers.CharField(
        max_length=100, required=False, allow_blank=True, help_text=PRESET_CLUSTER
    )
    reason = serializers.CharField(max_length=MAX_REASON)


class GpuVerdictSerializer(serializers.Serializer[Any]):
    outcome = serializers.CharField()
    severity = serializers.CharField()
    ladder = serializers.ListField(child=serializers.CharField())


class GpuDifferenceSerializer(serializers.Serializer[Any]):
    node = serializers.CharField()
    device = serializers.CharField()
    fault = serializers.CharField()
    before = GpuVerdictSerializer()
    after = GpuVerdictSerializer()


@example(examples.TRIAL)
class GpuRuleTrialSerializer(serializers.Serializer[RuleTrial]):
    days = serializers.SerializerMethodField(help_text="How far back was looked.")
    readings = serializers.IntegerField(help_text="That were judged, of the machines that you may see.")
    verdicts = serializers.IntegerField(help_text="On the rule's fault, with the change.")
    differences = GpuDifferenceSerializer(many=True)

    def get_days(self, _trial: RuleTrial) -> int:
        return MEMORY.days


@example(examples.READINGS)
class GpuReadingsSerializer(serializers.Serializer[Any]):
    readings = serializers.ListField(
        child=serializers.DictField(),
        max_length=MAX_READINGS,
        help_text="Fields as in `gpu_health/signals/reading.py`; `origin` makes one count once.",
    )
    sent_at = serializers.FloatField(
        required=False,
        allow_null=True,
        min_value=0,
        help_text="Seconds since the epoch by the machine's clock as it sends: what that is off is taken "
        "into account.",
    )
    boot = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=100,
        help_text="The present start of the machine (`/proc/sys/kernel/random/boot_id`): readings of another "
        "one open no incident.",
    )


class GpuReadingRefusalSerializer(serializers.Serializer[Any]):
    entry = serializers.IntegerField(help_text="Index within what was sent.")
    reason = serializers.CharField()


@example(examples.STORED)
class GpuReceiptSerializer(serializers.Serializer[Any]):
    stored = serializers.IntegerField()
    known = serializers.IntegerField(help_text="That came before.")
    refused = GpuReadingRefusalSerializer(many=True)


@example(examples.COMPARISON)
class GpuDisagreementSerializer(serializers.Serializer[SourceComparison]):
    fault = serializers.CharField()
    title = serializers.SerializerMethodField()
    is_disputed = serializers.BooleanField(help_text="Some would touch the machine, and others would not.")
    statements = serializers.SerializerMethodField(help_text="By source: the ladder of its strictest rule.")

    def get_title(self, one: SourceComparison) -> str:
        return fault_title(one.fault)

    def get_statements(self, one: SourceComparison) -> dict[str, list[str]]:
        return {
            name: [str(action) for action in said.strictest.ladder] for name, said in one.statements.items()
        }


@example(examples.COMPARISONS)
class GpuDisagreementsSerializer(serializers.Serializer[Any]):
    results = GpuDisagreementSerializer(many=True)
    next = serializers.CharField(allow_null=True)
    previous = serializers.CharField(allow_null=True)
