"""Forms of images. Fields only: services decide."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from accounts.models import Team
from accounts.selectors import may_everywhere, teams_where
from accounts.states import Right
from common.actor import Actor
from common.audit import MAX_REASON
from common.pages.fields import name_input
from images import selectors
from images.models import RuntimeImage
from images.presets import PRESETS
from images.references import MAX_REFERENCE
from images.refreshing import PLATFORM
from images.states import Acceleration, TrialOutcome
from models_registry.models import Model
from serving.engines.registry import ENGINES
from trust.formats.summary import WEIGHT_FORMATS

ENGINE_CHOICES = [(engine, engine) for engine in ENGINES]
MEGABYTE = 10**6


class MirrorLinesField(forms.CharField):
    """Mirrors, one a line: a region and the repository there."""

    def __init__(self) -> None:
        super().__init__(
            label=_("Mirrors"),
            required=False,
            help_text=_("One per line: a region and the repository that holds the same digest there."),
            widget=forms.Textarea(
                attrs={
                    "rows": 2,
                    "spellcheck": "false",
                    "class": "mono",
                    "placeholder": "eu-central mirror.eu.example.org/serving/vllm",
                }
            ),
        )

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, dict):
            return "\n".join(f"{region} {repository}" for region, repository in value.items())
        return value

    def clean(self, value: Any) -> dict[str, str]:
        found: dict[str, str] = {}
        for line in str(super().clean(value)).splitlines():
            region, _space, repository = line.strip().partition(" ")
            if region and not repository.strip():
                raise forms.ValidationError(
                    _("'%(text)s' names no repository after the region.") % {"text": line.strip()[:80]}
                )
            if region in found:
                raise forms.ValidationError(_("The region %(region)s stands twice.") % {"region": region})
            if region:
                found[region] = repository.strip()
        return found


class ImageFieldsForm(forms.Form):
    """The fields of an image that may change."""

    description = forms.CharField(max_length=500, required=False, label=_("Description"))
    mirrors = MirrorLinesField()
    acceleration = forms.ChoiceField(
        choices=Acceleration.choices,
        required=False,
        help_text=_("How a cluster should get it sooner."),
        label=_("Acceleration"),
    )
    acceleration_why = forms.CharField(
        max_length=500,
        required=False,
        label=_("Reason"),
        help_text=_("In a sentence; needed with an acceleration."),
    )


class ImageChangeForm(ImageFieldsForm):
    revision = forms.IntegerField(widget=forms.HiddenInput)


class OwnerForm(forms.Form):
    """The owner: a team of the actor's, or nobody where the actor may say so."""

    team = forms.ModelChoiceField(
        Team.objects.none(),
        to_field_name="name",
        help_text=_("Whose releases may use it."),
        label=_("Team"),
    )

    def __init__(self, *args: Any, actor: Actor, **options: Any) -> None:
        super().__init__(*args, **options)
        field: Any = self.fields["team"]
        field.queryset = teams_where(actor, Right.FLEET_OPERATE).order_by("name")
        if may_everywhere(actor, Right.FLEET_OPERATE):
            field.required, field.empty_label = False, _("The whole installation")
        else:
            field.empty_label = None


class RefreshForm(OwnerForm):
    """The arguments of `refreshing.refresh_images`."""

    registry = forms.CharField(
        max_length=MAX_REFERENCE,
        widget=name_input("https://registry.example.org/mirror"),
        label=_("Registry"),
        help_text=_("Its address, with the path below which it mirrors others."),
    )
    presets = forms.MultipleChoiceField(
        choices=[(name, name) for name in PRESETS],
        required=False,
        label=_("Presets"),
        widget=forms.CheckboxSelectMultiple,
        help_text=_("All, if none is chosen."),
    )
    tag = forms.CharField(
        max_length=128,
        required=False,
        widget=name_input("v0.10.2"),
        label=_("Tag"),
        help_text=_("Of one preset; empty: the newest."),
    )
    platform = forms.CharField(
        max_length=50,
        initial=PLATFORM,
        label=_("Platform"),
        help_text=_("Whose size and configuration are read of an index."),
    )
    pull_secret = forms.CharField(
        max_length=20_000,
        required=False,
        label=_("Pull secret"),
        widget=forms.Textarea(
            attrs={"rows": 2, "spellcheck": "false", "class": "mono", "autocomplete": "off"}
        ),
        help_text=_("JSON of a .dockerconfigjson, where the registry wants one; not stored."),
    )
    field_order = ("registry", "team", "presets", "tag", "platform", "pull_secret")


class NewImageForm(ImageFieldsForm, OwnerForm):
    name = forms.CharField(
        max_length=95,
        widget=name_input("vllm-0.10.2"),
        help_text=_("Unique over all teams."),
        label=_("Name"),
    )
    engine = forms.ChoiceField(choices=ENGINE_CHOICES, label=_("Engine"))
    engine_version = forms.CharField(max_length=50, widget=name_input("0.10.2"), label=_("Engine version"))
    reference = forms.CharField(
        max_length=MAX_REFERENCE + 80,
        widget=name_input("registry.example.org/serving/vllm@sha256:..."),
        help_text=_("With its digest, as crane digest REPOSITORY:TAG prints it. A tag can be moved."),
        label=_("Reference"),
    )
    cuda_version = forms.CharField(
        max_length=20,
        required=False,
        label="CUDA",
        widget=name_input("12.8"),
        help_text=_("Empty: it brings none."),
    )
    least_driver = forms.CharField(
        max_length=20,
        required=False,
        label=_("Minimum driver version"),
        widget=name_input("550.54.14"),
        help_text=_("Empty: what its CUDA needs."),
    )
    code = forms.CharField(
        required=False,
        max_length=500,
        label=_("Compute capabilities"),
        widget=name_input("8.0 9.0 10.0+PTX"),
        help_text=_("That it was compiled for; as torch.cuda.get_arch_list() prints them will do."),
    )
    formats = forms.MultipleChoiceField(
        choices=WEIGHT_FORMATS,
        required=False,
        label=_("Supported formats"),
        widget=forms.CheckboxSelectMultiple,
        help_text=_("Not known, if none is chosen."),
    )
    size = forms.IntegerField(
        min_value=0,
        max_value=2**40,
        required=False,
        label=_("Size in MB"),
        help_text=_("Compressed, as it is pulled."),
    )
    runs_on_cpu = forms.BooleanField(required=False, label=_("Runs without a GPU, too"))

    field_order = (
        "name", "team", "engine", "engine_version", "reference", "cuda_version", "least_driver", "code",
        "size", "formats", "runs_on_cpu", "description", "mirrors", "acceleration", "acceleration_why",
    )  # fmt: skip

    def wishes(self) -> dict[str, Any]:
        """Return the arguments of `services.add_image`."""
        given = dict(self.cleaned_data)
        given["size_bytes"] = (given.pop("size") or 0) * MEGABYTE
        return given | {"code": given["code"].replace(",", " ").split()}


class DeprecationForm(forms.Form):
    replaced_by = forms.ModelChoiceField(
        RuntimeImage.objects.none(),
        to_field_name="name",
        required=False,
        empty_label=_("Nothing"),
        label=_("Replaced by"),
    )

    def __init__(self, *args: Any, image: RuntimeImage, actor: Actor, **options: Any) -> None:
        super().__init__(*args, **options)
        others = selectors.images(actor).filter(engine=image.engine, deprecated_at=None).exclude(pk=image.pk)
        self.fields["replaced_by"].queryset = others.order_by("name")  # type: ignore[attr-defined]


class TrialForm(forms.Form):
    gpu = forms.CharField(max_length=100, label="GPU", widget=name_input("NVIDIA H100 80GB HBM3"))
    driver = forms.CharField(max_length=20, required=False, widget=name_input("550.54.15"), label=_("Driver"))
    architecture = forms.CharField(
        max_length=200,
        required=False,
        label=_("Architecture of the model"),
        widget=name_input("LlamaForCausalLM"),
        help_text=_("Empty: it is the same for any."),
    )
    outcome = forms.ChoiceField(choices=TrialOutcome.choices, label=_("Outcome"))
    words = forms.CharField(
        max_length=MAX_REASON,
        required=False,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text=_("How it fails, if it does: it keeps releases from this image."),
        label=_("Note"),
    )


class FitForm(forms.Form):
    """A search for the image that fits; the same questions as REST's `images/fit/`."""

    engine = forms.ChoiceField(choices=ENGINE_CHOICES, label=_("Engine"))
    engine_version = forms.CharField(
        max_length=50, required=False, widget=name_input(">=0.10"), label=_("Engine's version")
    )
    gpu = forms.CharField(
        max_length=100,
        required=False,
        label="GPU",
        widget=name_input("NVIDIA H100 80GB HBM3"),
        help_text=_("As nvidia-smi names it, or none."),
    )
    driver = forms.CharField(max_length=20, required=False, widget=name_input("550.54.14"), label=_("Driver"))
    model = forms.ModelChoiceField(
        Model.objects.none(),
        to_field_name="name",
        required=False,
        empty_label=_("Any"),
        label=_("Model"),
    )
    version = forms.CharField(
        max_length=95,
        required=False,
        widget=name_input("v1"),
        help_text=_("Of the model; empty: the newest."),
        label=_("Version"),
    )

    def __init__(self, *args: Any, actor: Actor, **options: Any) -> None:
        super().__init__(*args, **options)
        models = Model.objects.for_actor(actor).live().order_by("name")
        self.fields["model"].queryset = models  # type: ignore[attr-defined]

    def asked(self) -> dict[str, str]:
        """Return the arguments of `wishing.wish_of`."""
        model = self.cleaned_data["model"]
        return self.cleaned_data | {"model": model.name if model else ""}
