"""What people fill in about services and releases. Fields only: services decide."""

from typing import TYPE_CHECKING, Any

import django_filters
from django import forms
from django.db.models import QuerySet
from django.http import QueryDict

from accounts.actors import of_request
from accounts.models import Team
from accounts.selectors import teams_where
from accounts.states import Right
from clusters.models import Cluster
from common.actor import Actor
from common.audit import MAX_REASON
from common.pages.forms import SearchInput
from common.words import occurs_in
from images import selectors as catalogue
from images.models import RuntimeImage
from models_registry.models import Model, Version
from models_registry.states import VersionState
from releases import plans, selectors
from releases.models import Release, Service
from releases.states import IN_MOTION, ReleaseState
from serving.protocol import DEVICES, ENGINES

IN_MOTION_CHOICE = "in_motion"


def _visible_teams(request: Any) -> QuerySet[Team]:
    return teams_where(of_request(request), Right.READ).order_by("name")


def _visible_services(request: Any) -> QuerySet[Service]:
    return Service.objects.for_actor(of_request(request)).order_by("name")


class ReleaseFilter(django_filters.FilterSet):  # type: ignore[misc]
    q = django_filters.CharFilter(
        method="mentioning", label="Search", widget=SearchInput("Version, reason, person")
    )
    state = django_filters.ChoiceFilter(
        method="in_state",
        label="State",
        empty_label="Any",
        choices=[(IN_MOTION_CHOICE, "In motion"), *ReleaseState.choices],
    )
    service = django_filters.ModelChoiceFilter(
        field_name="service",
        to_field_name="name",
        queryset=_visible_services,
        label="Service",
        empty_label="Any",
    )
    team = django_filters.ModelChoiceFilter(
        field_name="team", to_field_name="name", queryset=_visible_teams, label="Team", empty_label="Any"
    )

    class Meta:
        model = Release
        fields: tuple[str, ...] = ()

    def mentioning(self, rows: QuerySet[Release], _name: str, text: str) -> QuerySet[Release]:
        names = ("service__name", "version__name", "version__model__name", "requester")
        return rows.filter(occurs_in((*names, "reason", "outcome"), text))

    def in_state(self, rows: QuerySet[Release], _name: str, state: str) -> QuerySet[Release]:
        return rows.filter(state__in=IN_MOTION if state == IN_MOTION_CHOICE else [state])


class ServiceFilter(django_filters.FilterSet):  # type: ignore[misc]
    q = django_filters.CharFilter(method="mentioning", label="Search", widget=SearchInput("Name, model"))
    cluster = django_filters.ModelChoiceFilter(
        field_name="cluster",
        to_field_name="name",
        queryset=lambda request: Cluster.objects.for_actor(of_request(request)).order_by("name"),
        label="Cluster",
        empty_label="Any",
    )
    team = django_filters.ModelChoiceFilter(
        field_name="team", to_field_name="name", queryset=_visible_teams, label="Team", empty_label="Any"
    )

    class Meta:
        model = Service
        fields: tuple[str, ...] = ()

    def mentioning(self, rows: QuerySet[Service], _name: str, text: str) -> QuerySet[Service]:
        columns = ("name", "description", "model__name", "stable_version__name")
        return rows.filter(occurs_in(columns, text))


def ready_versions(model: Model) -> QuerySet[Version]:
    """Newest first, without their configs."""
    rows = Version.objects.filter(model=model, state=VersionState.READY).select_related("model")
    return rows.defer("config", "scan").order_by("-number")


def plan_choices(actor: Actor, team: Team) -> list[tuple[str, str]]:
    """Name, and name with its steps in words."""
    rows = [plan for plan in selectors.plans_for(actor) if plan.pk is None or plan.team_id == team.pk]
    return [(plan.name, plan.name if plan.pk is None else f"{plan.name} (team {team})") for plan in rows]


if TYPE_CHECKING:
    OneVersion = forms.ModelChoiceField[Version]
else:
    OneVersion = forms.ModelChoiceField


class VersionChoice(OneVersion):
    def label_from_instance(self, version: Any) -> str:
        return f"{version.name} · {version.short_digest}" + (
            f" · {version.message[:60]}" if version.message else ""
        )


class ImageChoice(forms.ModelChoiceField):  # type: ignore[type-arg]
    """One of the images that releases of a team may use."""

    def __init__(self, **options: Any) -> None:
        super().__init__(RuntimeImage.objects.none(), required=False, to_field_name="name", **options)

    def label_from_instance(self, image: Any) -> str:
        deprecated = ", deprecated" if image.deprecated_at else ""
        return f"{image.name} ({image.engine} {image.engine_version}{deprecated})"


def offer_images(form: forms.Form, images: QuerySet[RuntimeImage]) -> None:
    """Let the form's `image` be one of these; without any there is nothing to choose."""
    form.fields["image"].queryset = images  # type: ignore[attr-defined]
    if not images.exists():
        del form.fields["image"]


class ReleaseForm(forms.Form):
    """Set a version of the service's model on its way."""

    version = VersionChoice(queryset=Version.objects.none(), empty_label=None, to_field_name="name")
    plan = forms.ChoiceField(help_text="How it gets its traffic. The release keeps the plan as it is now.")
    reason = forms.CharField(
        max_length=MAX_REASON,
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "placeholder": "What should be better with it?"}),
        help_text="Whoever approves reads this first.",
    )
    image = ImageChoice(
        empty_label="As the service says",
        help_text="What its workers run. The service names one, or the catalogue's best is taken.",
    )

    def __init__(
        self, data: QueryDict | None = None, *, service: Service, actor: Actor, **options: Any
    ) -> None:
        super().__init__(data, **options)
        others = ready_versions(service.model)
        if service.stable_version_id is not None:
            others = others.exclude(pk=service.stable_version_id)
        self.fields["version"].queryset = others  # type: ignore[attr-defined]
        self.fields["plan"].choices = plan_choices(actor, service.team)  # type: ignore[attr-defined]
        offer_images(self, catalogue.usable_by(service.team).filter(engine=service.engine).order_by("name"))

    def chosen_version(self) -> Version | None:
        """The one that the browser shows as chosen: the first unless told otherwise."""
        rows: QuerySet[Version] = self.fields["version"].queryset  # type: ignore[attr-defined]
        return rows.filter(name=self["version"].value() or "").first() or rows.first()

    def chosen_image(self) -> RuntimeImage | None:
        if "image" not in self.fields or not (name := self["image"].value()):
            return None
        found: RuntimeImage | None = self.fields["image"].queryset.filter(name=name).first()  # type: ignore[attr-defined]
        return found


class JsonText(forms.JSONField):
    """Text that was typed is shown again as it was typed, not quoted once more."""

    def prepare_value(self, value: Any) -> Any:
        return value if isinstance(value, str) else super().prepare_value(value)


class ServiceSettings(forms.Form):
    """What the next release of a service will use."""

    description = forms.CharField(max_length=300, required=False)
    engine = forms.ChoiceField(choices=[(engine, engine) for engine in ENGINES])
    device = forms.ChoiceField(choices=[(device, device) for device in DEVICES])
    replicas = forms.IntegerField(min_value=1, max_value=100, initial=1, label="Workers")
    slots = forms.IntegerField(
        min_value=1,
        max_value=1024,
        initial=4,
        label="Slots per worker",
        help_text="Requests that one worker answers at the same time.",
    )
    plan = forms.ChoiceField(label="Release plan", help_text="For releases that name no other.")
    image = ImageChoice(
        empty_label="The one that fits best", help_text="What its workers run; of the same engine."
    )
    alias = forms.CharField(
        max_length=95,
        required=False,
        help_text="An alias of the model that follows what is promoted here, such as production.",
    )
    resources = JsonText(
        required=False,
        initial=dict,
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false", "class": "mono"}),
    )
    settings = JsonText(
        required=False,
        initial=dict,
        label="Engine settings",
        help_text="A JSON object, handed to the engine as it is.",
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "class": "mono"}),
    )

    def clean_resources(self) -> dict[str, Any]:
        return self._object("resources")

    def clean_settings(self) -> dict[str, Any]:
        return self._object("settings")

    def _object(self, name: str) -> dict[str, Any]:
        value = self.cleaned_data.get(name) or {}
        if not isinstance(value, dict):
            raise forms.ValidationError('Give a JSON object, such as {"max_model_len": 8192}.')
        return value

    def changes(self) -> dict[str, Any]:
        """As `services.change_service` names them."""
        given = dict(self.cleaned_data)
        given["plan_name"] = given.pop("plan")
        return given


class ServiceChangeForm(ServiceSettings):
    revision = forms.IntegerField(widget=forms.HiddenInput)
    """Of the service as the person saw it, so that nobody's change is lost."""

    def __init__(self, data: QueryDict | None = None, *, service: Service, actor: Actor) -> None:
        names = (
            "description",
            "engine",
            "device",
            "replicas",
            "slots",
            "alias",
            "image",
            "resources",
            "settings",
            "revision",
        )
        initial: dict[str, Any] = {name: getattr(service, name) for name in names}
        initial["plan"] = service.plan_name
        super().__init__(data, initial=initial)
        self.fields["plan"].choices = plan_choices(actor, service.team)  # type: ignore[attr-defined]
        offer_images(self, catalogue.usable_by(service.team).order_by("engine", "name"))


class NewServiceForm(ServiceSettings):
    team = forms.ModelChoiceField(queryset=Team.objects.none(), empty_label=None, to_field_name="name")
    name = forms.CharField(
        max_length=50,
        help_text="Part of its address: /name/v1/chat/completions. Lower-case letters, digits, hyphens.",
        widget=forms.TextInput(attrs={"spellcheck": "false", "autocapitalize": "off", "autocomplete": "off"}),
    )
    model = forms.ModelChoiceField(
        queryset=Model.objects.none(), empty_label="Choose a model", to_field_name="name"
    )
    version = VersionChoice(
        queryset=Version.objects.none(),
        empty_label=None,
        to_field_name="name",
        help_text="The first one to answer there, as soon as its workers have passed the smoke test.",
    )
    cluster = forms.ModelChoiceField(queryset=Cluster.objects.none(), empty_label=None, to_field_name="name")

    field_order = (
        "name", "team", "model", "version", "cluster", "description", "replicas", "slots", "engine", "device",
        "image", "plan", "alias", "resources", "settings",
    )  # fmt: skip

    def __init__(self, data: QueryDict | None = None, *, actor: Actor, **options: Any) -> None:
        super().__init__(data, **options)
        self.team_fields(actor)
        model = self._chosen("model")
        fields: dict[str, Any] = self.fields
        if model is not None:
            fields["version"].queryset = ready_versions(model)
        if not fields["version"].queryset.exists():
            fields["version"].empty_label = "No version is ready" if model else "Choose a model first"

    def team_fields(self, actor: Actor) -> None:
        fields: dict[str, Any] = self.fields
        fields["team"].queryset = teams_where(actor, Right.SERVICES_WRITE).order_by("name")
        fields["model"].queryset = Model.objects.for_actor(actor).live().order_by("name")
        fields["cluster"].queryset = Cluster.objects.for_actor(actor).order_by("name")
        team = self._chosen("team") or fields["team"].queryset.first()
        names = plan_choices(actor, team) if team else [(name, name) for name in plans.BUILTIN_PLANS]
        fields["plan"].choices = names
        usable = catalogue.usable_by(team) if team else RuntimeImage.objects.none()
        offer_images(self, usable.order_by("engine", "name"))
        fields["plan"].initial = plans.DEFAULT_PLAN.name

    def _chosen(self, name: str) -> Any:
        """What the person has chosen so far, if it exists."""
        value = self.data.get(name) if self.is_bound else self.initial.get(name)
        try:
            return self.fields[name].clean(value) if value else None
        except forms.ValidationError:
            return None
