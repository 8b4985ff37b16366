"""What people fill in of a new benchmark. Fields only: services decide."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from accounts.models import Team
from accounts.selectors import teams_where
from accounts.states import Right
from benchmarks.load.scenario import MOST_RATES
from benchmarks.spec import MOST_REPEATS
from benchmarks.states import ARRIVALS, LoadEngineKind, ObjectiveKind, PriorKind, Strategy
from benchmarks.statistics import LEAST_REPEATS
from clusters.models import Cluster
from common.actor import Actor
from models_registry.models import Version
from models_registry.states import VersionState
from serving.engines.registry import ENGINES

FIELD_OF = {
    "space": "parameters",
    "space.parameters": "parameters",
    "space.engines": "engine",
    "space.constraints": "constraints",
    "objective.kind": "objective",
    "scenario.rates": "rates",
    "scenario.find_max_rate": "find_max_rate",
    "scenario.arrivals": "arrivals",
    "scenario.requests": "requests",
    "scenario.seconds": "requests",
    "scenario.input.tokens": "input_tokens",
    "scenario.output.tokens": "output_tokens",
    "scenario.targets.ttft_ms": "ttft_ms",
    "scenario.targets.tpot_ms": "tpot_ms",
    "scenario.targets.share": "share",
    "budget.runs": "most_runs",
    "load_engine": "load_engine",
    "versions": "version",
    "target.service": "service",
    "target.ttft_ms": "service_ttft_ms",
    "target.tpot_ms": "service_tpot_ms",
}
"""The field of the form that stands for a place of the document."""


class ParametersField(forms.CharField):
    """A field with one parameter per line: its name and its values."""

    def __init__(self, help_text: Any = "") -> None:
        super().__init__(
            label=_("Parameters"),
            required=False,
            help_text=help_text or _("One per line: a name and its values, such as slots: 2 4 8."),
            widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "class": "mono"}),
        )

    def clean(self, value: Any) -> dict[str, list[Any]]:
        found = {}
        for line in str(super().clean(value)).splitlines():
            name, _colon, values = line.partition(":")
            if not line.strip():
                continue
            found[name.strip()] = [_value_of(word) for word in values.replace(",", " ").split()]
        return found


class NewBenchmarkForm(forms.Form):
    name = forms.CharField(max_length=63, label=_("Name"))
    team = forms.ModelChoiceField(Team.objects.none(), label=_("Team"), to_field_name="name")
    version = forms.ModelChoiceField(Version.objects.none(), required=False, label=_("Version"))
    service = forms.CharField(
        max_length=63,
        required=False,
        label=_("Running service"),
        help_text=_("Instead of a version: it is loaded as it runs, beside its users."),
    )
    service_ttft_ms = forms.FloatField(required=False, label=_("TTFT that its users must keep (ms)"))
    service_tpot_ms = forms.FloatField(required=False, label=_("TPOT that its users must keep (ms)"))
    cluster = forms.ModelChoiceField(Cluster.objects.none(), label=_("Cluster"), to_field_name="name")
    engine = forms.ChoiceField(choices=[(one, one) for one in ENGINES], label=_("Engine"))
    parameters = ParametersField()
    constraints = forms.CharField(
        required=False, label=_("Constraint"), help_text=_("Between parameters: slots <= 8 or threads == 1.")
    )
    arrivals = forms.ChoiceField(
        choices=[(one, ARRIVALS[one]) for one in ("poisson", "constant", "concurrency")],
        label=_("Arrivals"),
    )
    rates = forms.CharField(
        initial="1 2 4",
        label=_("Rates"),
        help_text=_("Requests per second; for fixed concurrency, requests in flight."),
    )
    find_max_rate = forms.BooleanField(required=False, label=_("Find the highest rate within the targets"))
    requests = forms.IntegerField(min_value=1, initial=100, label=_("Requests per rate"))
    input_tokens = forms.IntegerField(min_value=1, initial=64, label=_("Prompt tokens"))
    output_tokens = forms.IntegerField(min_value=1, initial=32, label=_("Output tokens"))
    ttft_ms = forms.FloatField(required=False, label=_("TTFT target (ms)"))
    tpot_ms = forms.FloatField(required=False, label=_("TPOT target (ms)"))
    share = forms.FloatField(initial=0.95, label=_("Share within targets"))
    objective = forms.ChoiceField(choices=ObjectiveKind.choices, label=_("Objective"))
    strategy = forms.ChoiceField(choices=Strategy.choices, label=_("Strategy"))
    prior = forms.ChoiceField(
        choices=PriorKind.choices,
        initial=PriorKind.ROOFLINE,
        required=False,
        label=_("Prior"),
        help_text=_("What orders configurations of a staged search before anything is measured."),
    )
    load_engine = forms.ChoiceField(choices=LoadEngineKind.choices, label=_("Load engine"))
    repeats = forms.IntegerField(
        min_value=1,
        max_value=MOST_REPEATS,
        initial=LEAST_REPEATS,
        label=_("Repeats"),
        help_text=_("Fewer than 5 give no verdict."),
    )
    most_runs = forms.IntegerField(min_value=1, required=False, label=_("Maximum runs"))

    def __init__(self, *args: Any, actor: Actor, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        teams = teams_where(actor, Right.BENCHMARKS_WRITE)
        self.fields["team"].queryset = teams  # type: ignore[attr-defined]
        versions = Version.objects.filter(state=VersionState.READY, model__team__in=teams)
        self.fields["version"].queryset = versions.select_related("model").order_by("model__name", "-number")  # type: ignore[attr-defined]
        self.fields["cluster"].queryset = Cluster.objects.present().for_actor(actor).order_by("name")  # type: ignore[attr-defined]

        for name in ("team", "version", "cluster"):
            if len(found := list(self.fields[name].queryset[:2])) == 1:  # type: ignore[attr-defined]
                self.initial.setdefault(name, found[0])

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or self.cleaned_data
        if not given.get("version") and not given.get("service") and "version" not in self.errors:
            self.add_error("version", _("Choose a version, or name a running service."))
        return given

    def order(self) -> dict[str, Any]:
        """Return the order as `planning.plan_benchmark` takes it."""
        given = self.cleaned_data
        rates = given["rates"].replace(",", " ").split()[: MOST_RATES + 1]
        targets = {name: given[name] for name in ("ttft_ms", "tpot_ms", "share") if given[name] is not None}
        return {
            "team": given["team"],
            "cluster": given["cluster"].name,
            "scenario": {
                "arrivals": given["arrivals"],
                "rates": [_value_of(one) for one in rates],
                "find_max_rate": given["find_max_rate"],
                "requests": given["requests"],
                "input": given["input_tokens"],
                "output": given["output_tokens"],
                "targets": targets,
            },
            "spec": {
                **(self._service() or self._deployed()),
                "objective": {"kind": given["objective"]},
                "load_engine": given["load_engine"],
                "repeats": given["repeats"],
                "budget": {"runs": given["most_runs"]},
            },
        }

    def _service(self) -> dict[str, Any]:
        given = self.cleaned_data
        if not given["service"]:
            return {}
        limits = {name: given[f"service_{name}"] for name in ("ttft_ms", "tpot_ms")}
        return {"target": {"service": given["service"], **limits}}

    def _deployed(self) -> dict[str, Any]:
        given = self.cleaned_data
        return {
            "versions": [str(given["version"])],
            "space": {
                "engines": [given["engine"]],
                "parameters": given["parameters"],
                "constraints": [given["constraints"]] if given["constraints"] else [],
            },
            "strategy": given["strategy"],
            "prior": given["prior"] or PriorKind.ROOFLINE,
        }


def _value_of(word: str) -> Any:
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word
