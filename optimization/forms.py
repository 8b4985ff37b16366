"""What people fill in of a new run. Fields only: services decide."""

from typing import Any

from django import forms
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from accounts.models import Team
from accounts.selectors import teams_where
from accounts.states import Right
from benchmarks.forms import ParametersField
from clusters.models import Cluster, Deployment
from clusters.states import DeploymentState
from common.actor import Actor
from models_registry.models import Version, VersionFile
from models_registry.states import VersionState
from optimization.documents import in_language
from optimization.recipes import recipes
from optimization.scorer_files import SUFFIX as SCORERS
from optimization.states import RunPlace
from optimization.task_files import SUFFIXES
from serving.engines.registry import ENGINES

MOST_SETS = 200
DEFAULT_RECIPE = "local/int8-dynamic"


def _files(versions: QuerySet[Version], suffix: str) -> list[str]:
    files = VersionFile.objects.filter(version__in=versions, path__endswith=suffix)
    rows = files.select_related("version__model").order_by("version", "path")[:MOST_SETS]
    return [f"{file.version}/{file.path}" for file in rows]


BATCH = ("more_recipes", "budget_hours", "budget_cost")
"""Fields of an order of several recipes."""


class NewRunForm(forms.Form):
    team = forms.ModelChoiceField(Team.objects.none(), label=_("Team"), to_field_name="name")
    parent = forms.ChoiceField(label=_("Version"))
    recipe = forms.ChoiceField(label=_("Recipe"))
    more_recipes = forms.MultipleChoiceField(
        required=False,
        label=_("Other recipes"),
        help_text=_("Each makes a version of its own; all are compared on one page."),
        widget=forms.CheckboxSelectMultiple,
    )
    budget_hours = forms.FloatField(
        required=False,
        label=_("Budget (hours)"),
        help_text=_("With a budget recipes take turns; one whose estimate exceeds the rest is not begun."),
    )
    budget_cost = forms.FloatField(
        required=False, label=_("Budget (cost)"), help_text=_("Of the GPUs, in the currency of their prices.")
    )
    parameters = ParametersField(_("One per line: a name and its value, such as share: 0.25."))
    test = forms.ChoiceField(
        label=_("Test set"),
        help_text=_(
            "JSON lines of a version (texts, questions or seeds), a task file of lm-eval, or a scorer (.py)."
        ),
    )
    calibration = forms.ChoiceField(required=False, label=_("Calibration set"))
    margin = forms.FloatField(
        initial=1.0,
        label=_("Accuracy margin (%)"),
        help_text=_("Largest accepted loss: points of accuracy, percent of perplexity."),
    )
    cluster = forms.ModelChoiceField(Cluster.objects.none(), label=_("Cluster"), to_field_name="name")
    place = forms.ChoiceField(
        choices=RunPlace.choices,
        required=False,
        label=_("Where jobs run"),
        help_text=_("A Job of the cluster fetches the version, and hands in what it made."),
    )
    gpus = forms.IntegerField(initial=0, min_value=0, required=False, label=_("GPUs of the recipe's Job"))
    engine = forms.ChoiceField(choices=[(one, one) for one in ENGINES], label=_("Engine"))
    gain = forms.FloatField(
        initial=1.0,
        label=_("Required speedup"),
        help_text=_("As a multiple of the parent's; 1: no figure may be over 5 % worse."),
    )
    load_of = forms.ChoiceField(
        required=False,
        label=_("Load"),
        help_text=_("Lengths and rates of a service's last seven days; never its prompts."),
    )
    compare_batching = forms.BooleanField(
        required=False,
        label=_("Also measure static batching"),
        help_text=_("Twice as long; the transformers engine alone."),
    )
    name = forms.CharField(max_length=63, required=False, label=_("Name"))

    def __init__(self, *args: Any, actor: Actor, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        teams = teams_where(actor, Right.OPTIMIZATIONS_WRITE)
        self.fields["team"].queryset = teams  # type: ignore[attr-defined]
        versions = Version.objects.filter(state=VersionState.READY, model__team__in=teams)
        weights = VersionFile.objects.filter(path__endswith=".safetensors").values("version")
        parents = versions.filter(pk__in=weights, quantization="").select_related("model")
        labels = [str(one) for one in parents.order_by("model__name", "-number")[:MOST_SETS]]
        self._choose("parent", [(one, one) for one in labels])
        known = [(one.name, f"{one.name}: {in_language(one.title)}") for one in recipes().values()]
        self._choose("recipe", known)
        self._choose("more_recipes", known)
        self.fields["recipe"].initial = DEFAULT_RECIPE
        sets = _files(versions, ".jsonl")
        tasks = [one for suffix in (*SUFFIXES, SCORERS) for one in _files(versions, suffix)]
        self._choose("test", [(one, one) for one in (*sets, *tasks)])
        self._choose("calibration", [("", _("None")), *((one, one) for one in sets)])
        services = Deployment.objects.filter(team__in=teams).exclude(state=DeploymentState.REMOVED)
        names = services.order_by("service").values_list("service", flat=True).distinct()[:MOST_SETS]
        self._choose("load_of", [("", _("Four requests at a time")), *((one, one) for one in names)])
        clusters = Cluster.objects.present().for_actor(actor).order_by("name")
        self.fields["cluster"].queryset = clusters  # type: ignore[attr-defined]
        # An only one is the choice.
        for name, rows in (("team", list(teams[:2])), ("cluster", list(clusters[:2]))):
            self.fields[name].initial = rows[0].name if len(rows) == 1 else None

    def _choose(self, name: str, choices: list[Any]) -> None:
        self.fields[name].choices = choices  # type: ignore[attr-defined]

    @property
    def main_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in self.fields if name not in BATCH]

    @property
    def batch_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in BATCH]

    @property
    def has_batch(self) -> bool:
        """Say whether one of the fields of several recipes is filled in or wrong."""
        return any(field.data or field.errors for field in self.batch_fields)

    @property
    def recipes(self) -> list[str]:
        """Return all recipes that were chosen, each once."""
        return list(dict.fromkeys([self.cleaned_data["recipe"], *self.cleaned_data["more_recipes"]]))

    @property
    def budget(self) -> dict[str, float | None]:
        return {name: self.cleaned_data[name] for name in ("budget_hours", "budget_cost")}

    @property
    def is_batch(self) -> bool:
        return len(self.recipes) > 1 or any(one is not None for one in self.budget.values())

    def order(self) -> dict[str, Any]:
        """Return the order of each recipe as `planning.plan_run` takes it."""
        besides = ("name", "recipe", *BATCH)
        given = {name: value for name, value in self.cleaned_data.items() if name not in besides}
        parameters = {name: values[0] for name, values in given["parameters"].items() if values}
        given |= {"place": given["place"] or RunPlace.LOCAL, "gpus": given["gpus"] or 0}
        return {**given, "cluster": given["cluster"].name, "parameters": parameters}
