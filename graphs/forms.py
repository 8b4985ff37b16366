from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.utils.translation import gettext_lazy as _

from common.pages import formats
from graphs.models import Graph, GraphPush
from graphs.states import OBJECTIVES


class PlanWishForm(forms.Form):
    """Order of a plan on the machine of the newest profile."""

    objective = forms.ChoiceField(label=_("Objective"), choices=OBJECTIVES)
    rate = forms.FloatField(
        label=_("Rate"), min_value=1e-9, required=False, help_text=_("Items/s; for cost and latency.")
    )
    latency_seconds = forms.FloatField(
        label=_("Latency limit"), min_value=1e-9, required=False, help_text=_("Seconds; empty: no limit.")
    )


if TYPE_CHECKING:
    OnePush = forms.ModelChoiceField[GraphPush]
else:
    OnePush = forms.ModelChoiceField


class PushChoice(OnePush):
    def label_from_instance(self, obj: GraphPush) -> str:
        return f"{obj.version}, {formats.absolute(obj.pushed_at)}, {obj.pushed_by}"


class PushesForm(forms.Form):
    """Two pushes of a graph that are compared."""

    before = PushChoice(GraphPush.objects.none(), label=_("Before"), empty_label=None)
    after = PushChoice(GraphPush.objects.none(), label=_("After"), empty_label=None)

    def __init__(self, *args: Any, graph: Graph, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            field.queryset = graph.pushes.all()  # type: ignore[attr-defined]


class RayOrderForm(forms.Form):
    """Order of a run on Ray in a cluster; what REST asks for."""

    name = forms.RegexField(r"^[a-z]([-a-z0-9]{0,45}[a-z0-9])?$", label=_("Name"), strip=True)
    image = forms.CharField(
        label=_("Image"), max_length=300, help_text=_("With Ray, Slipway and the graph's packages.")
    )
    file = forms.CharField(
        label=_("File"), max_length=500, help_text=_("Of the graph, in the image or on a volume.")
    )
    source = forms.CharField(
        label=_("Source"), max_length=500, required=False, help_text=_("Items of a job; empty: a service.")
    )
    out = forms.CharField(label=_("Results"), max_length=500, required=False)
    queue = forms.CharField(
        label=_("Queue"), max_length=63, required=False, help_text=_("A LocalQueue of Kueue.")
    )
    cores = forms.IntegerField(label=_("Cores of a pod"), min_value=1, max_value=4_096, initial=4)
    memory_gib = forms.IntegerField(
        label=_("Memory of a pod"), min_value=1, max_value=65_536, initial=16, help_text=_("GiB.")
    )
    gpus = forms.IntegerField(label=_("GPUs of a pod"), min_value=0, max_value=64, initial=0)
    volumes = forms.CharField(
        label=_("Volumes"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false"}),
        help_text=_("One a line: CLAIM:/PATH."),
    )

    def clean_volumes(self) -> dict[str, str]:
        pairs = [
            line.strip().partition(":") for line in self.cleaned_data["volumes"].splitlines() if line.strip()
        ]
        if any(not claim or not path.startswith("/") for claim, _colon, path in pairs):
            raise forms.ValidationError(_("Write each volume like pictures:/data."))
        return {path: claim for claim, _colon, path in pairs}

    def order(self) -> dict[str, Any]:
        """Return what `ray_runs.submit` takes."""
        pods = {key: self.cleaned_data[key] for key in ("cores", "memory_gib", "gpus")}
        return {"pods": pods} | {key: value for key, value in self.cleaned_data.items() if key not in pods}


class AdaptationForm(forms.ModelForm):  # type: ignore[type-arg]
    """When plans follow the times that workers measure."""

    class Meta:
        model = Graph
        fields = ("adapt", "gain_percent", "horizon_seconds", "dwell_seconds", "starts_per_day")
        labels: ClassVar = {
            "adapt": _("Mode"),
            "gain_percent": _("Least gain"),
            "horizon_seconds": _("Horizon"),
            "dwell_seconds": _("Dwell"),
            "starts_per_day": _("Starts per day"),
        }
        help_texts: ClassVar = {
            "adapt": _("Advise makes a plan, Approve asks for its start, Automatic starts it."),
            "gain_percent": _("Percent of the items of the horizon, the cost of the start taken off."),
            "horizon_seconds": _("Seconds."),
            "dwell_seconds": _("Seconds for which a plan stays active."),
            "starts_per_day": _("Adapted plans that may be started within 24 hours."),
        }
