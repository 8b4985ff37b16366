"""What people fill in about rules. Fields only: services decide."""

from typing import Any

from django import forms
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from clusters.models import Cluster
from common.audit import MAX_REASON
from gpu_health.models import RuleChange
from gpu_health.policy.presets import PRESETS
from gpu_health.services.gpu_counts import MOST_GPUS
from gpu_health.states import DrainScope, FindingSeverity, RuleMode, RuleVerification


class GpuRuleForm(forms.Form):
    enabled = forms.BooleanField(label=_("Enabled"), required=False)
    mode = forms.ChoiceField(label=_("Mode"), choices=RuleMode.choices)
    severity = forms.ChoiceField(label=_("Severity"), choices=FindingSeverity.choices)
    conditions = forms.CharField(
        label=_("Conditions"),
        required=False,
        max_length=500,
        help_text=_("Such as count=2 window_seconds=86400 same=gpc+tpc, or details.severity=fatal."),
        widget=forms.TextInput(attrs={"spellcheck": "false", "class": "mono"}),
    )
    ladder = forms.CharField(
        label=_("Remediation steps"),
        max_length=500,
        help_text=_("Actions in order, separated by >: reset_gpu > reboot > replace."),
        widget=forms.TextInput(attrs={"spellcheck": "false", "class": "mono"}),
    )
    drain = forms.ChoiceField(label=_("Drain first"), choices=DrainScope.choices)
    verification = forms.ChoiceField(label=_("Verification"), choices=RuleVerification.choices)
    reason = forms.CharField(
        label=_("Reason"),
        required=False,
        max_length=MAX_REASON,
        help_text=_("Recorded in the audit log; not needed for a preview."),
    )

    @staticmethod
    def initial_of(row: RuleChange) -> dict[str, Any]:
        names = ("enabled", "mode", "severity", "conditions", "drain", "verification")
        return {name: getattr(row, name) for name in names} | {"ladder": " > ".join(row.ladder)}

    def clean_ladder(self) -> list[str]:
        return [word.strip() for word in self.cleaned_data["ladder"].split(">") if word.strip()]


class NewRuleForm(GpuRuleForm):
    fault = forms.CharField(
        label=_("Fault"),
        max_length=120,
        help_text=_("A dotted name, such as xid.79 or ecc.double_bit; a rule has no wildcards."),
        widget=forms.TextInput(attrs={"spellcheck": "false", "class": "mono", "list": "known-faults"}),
    )
    field_order = ("fault",)

    @staticmethod
    def initial_of_new(fault: str) -> dict[str, Any]:
        plain = {"enabled": True, "mode": "propose", "severity": "warning", "ladder": "alert"}
        return plain | {"drain": "none", "verification": "none", "fault": fault}


class PresetForm(forms.Form):
    preset = forms.ChoiceField(label=_("Preset"), required=False)
    cluster = forms.ModelChoiceField(
        label=_("Cluster"), queryset=Cluster.objects.none(), required=False, empty_label=_("All others")
    )
    reason = forms.CharField(
        label=_("Reason"),
        required=False,
        max_length=MAX_REASON,
        help_text=_("Recorded in the audit log; not needed for a preview."),
    )

    def __init__(self, *args: Any, clusters: QuerySet[Cluster], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        titles = [(one.name, one.title) for one in PRESETS]
        self.fields["preset"].choices = [*titles, ("", _("as the installation"))]  # type: ignore[attr-defined]
        self.fields["cluster"].queryset = clusters  # type: ignore[attr-defined]


class ExpectedGpusForm(forms.Form):
    count = forms.IntegerField(
        label=_("Expected GPUs"),
        required=False,
        min_value=0,
        max_value=MOST_GPUS,
        help_text=_("Empty: what a label of the machine says, else the most that were ever counted."),
    )


class StopHealingForm(forms.Form):
    stop_drains = forms.BooleanField(
        label=_("Stop drains that are under way, too"),
        required=False,
        help_text=_("No further pod is asked to leave. Their incidents then need a person."),
    )
