"""A cluster by rule instead of by name: its fields, and which one it would pick now."""

from typing import Any

from django import forms
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from accounts.models import Team
from clusters.candidates import candidates
from clusters.choosing import ClusterChoice, ClusterRequirements, choose, with_resource

FIELDS = ("rule_region", "rule_provider", "rule_gpu", "rule_free_gpus", "rule_labels")


class LabelsField(forms.CharField):
    """`tier=gold, disk=nvme` as a mapping."""

    def to_python(self, value: Any) -> Any:
        found = {}
        for pair in (one.strip() for one in str(value or "").split(",")):
            key, equals, label = pair.partition("=")
            if pair and not (equals and key.strip() and label.strip()):
                raise forms.ValidationError(_("Write KEY=VALUE, with commas between: tier=gold, disk=nvme."))
            if pair:
                found[key.strip()] = label.strip()
        return found

    def run_validators(self, value: Any) -> None:
        """Any label may be asked for."""


class ClusterRuleFields(forms.Form):
    """Mixed into the form of a new service. What is left empty demands nothing."""

    rule_region = forms.CharField(label=_("Region"), max_length=63, required=False)
    rule_provider = forms.CharField(label=_("Provider"), max_length=63, required=False)
    rule_gpu = forms.CharField(
        label=_("GPU type"),
        max_length=100,
        required=False,
        help_text=_("Part of the name of its GPUs, such as H100."),
    )
    rule_free_gpus = forms.IntegerField(
        label=_("Free GPUs"),
        min_value=0,
        max_value=100_000,
        required=False,
        help_text=_("At least so many of them must be free."),
    )
    rule_labels = LabelsField(
        label=_("Labels"),
        required=False,
        help_text=_("KEY=VALUE, with commas between: tier=gold, disk=nvme."),
    )

    @property
    def is_by_rule(self) -> bool:
        """No cluster is named."""
        return not self["cluster"].value()

    @property
    def rule_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in FIELDS]

    def rule_of_team(self) -> Team | None:
        """Return the team whose clusters the rule picks from."""
        return None

    @property
    def picked(self) -> ClusterChoice | None:
        """Return what the rule would pick now, as far as it is filled in; None when it cannot be read, or
        none is asked for.
        """
        team = self.rule_of_team()
        if team is None or not self.is_by_rule:
            return None
        try:
            given = {name: self.fields[name].clean(self[name].value()) for name in FIELDS}
        except forms.ValidationError:
            return None
        wanted = self["resources_gpu_resource"].value() if "resources_gpu_resource" in self.fields else None
        return choose(candidates(team), with_resource(rule_in(given), wanted or None), now=timezone.now())


def rule_in(given: dict[str, Any]) -> ClusterRequirements:
    """Takes the fields of the rule out of what was filled in."""
    told = {name.removeprefix("rule_"): given.pop(name, None) for name in FIELDS}
    return ClusterRequirements(
        labels=told["labels"] or {},
        region=told["region"] or "",
        provider=told["provider"] or "",
        gpu=told["gpu"] or "",
        free_gpus=told["free_gpus"] or 0,
    )
