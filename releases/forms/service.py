"""A new service, and the settings of one."""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.db.models import QuerySet
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from accounts.models import Team
from accounts.selectors import teams_where
from accounts.states import Right
from clusters.backends.pod_settings import MOST_GPUS
from clusters.models import Cluster
from common.actor import Actor
from images import selectors as catalogue
from images.models import RuntimeImage
from models_registry.models import Model, Version
from releases.forms.choices import ImageChoice, VersionChoice, offer_images, plan_choices, ready_versions
from releases.forms.cluster_rule import FIELDS as RULE_FIELDS
from releases.forms.cluster_rule import ClusterRuleFields, rule_in
from releases.forms.policy import reason_field
from releases.models import Service, service_name
from releases.pages.engine_fields import (
    JsonObjectField,
    add_engine_fields,
    engine_fields,
    settings_in,
    told_twice,
    typed_number,
    typed_settings,
    without_engine_fields,
)
from releases.pages.memory import MemoryAdvice, advice_for
from releases.pages.pod_fields import add_pod_fields, asked_in, is_pod_field, pod_fields
from releases.plans.builtin import DEFAULT_PLAN, builtin_plans
from serving.engines.registry import SERVED_ENGINES
from serving.worker_command import DEVICES


class ServiceSettings(forms.Form):
    """Settings of the next release of a service."""

    description = forms.CharField(label=_("Description"), max_length=300, required=False)
    engine = forms.ChoiceField(label=_("Engine"), choices=[(engine, engine) for engine in SERVED_ENGINES])
    device = forms.ChoiceField(label=_("Device"), choices=[(device, device) for device in DEVICES])
    replicas = forms.IntegerField(
        min_value=1,
        max_value=100,
        initial=1,
        label=_("Replicas"),
        help_text=_("Workers that share the requests."),
    )
    gpus_per_worker = forms.IntegerField(
        min_value=0,
        max_value=MOST_GPUS,
        initial=1,
        required=False,
        label=_("GPUs per worker"),
        help_text=_("On machines that have GPUs."),
    )
    slots = forms.IntegerField(
        min_value=1,
        max_value=1024,
        initial=4,
        label=_("Slots per worker"),
        help_text=_("Requests that one worker answers at the same time."),
    )
    plan = forms.ChoiceField(label=_("Release plan"), help_text=_("For releases that name no other."))
    image = ImageChoice(
        label=_("Image"),
        empty_label=_("The one that fits best"),
        help_text=_("What its workers run; of the same engine."),
    )
    alias = forms.CharField(
        label=_("Alias"),
        max_length=95,
        required=False,
        help_text=_("An alias of the model that follows what is promoted here, such as production."),
    )
    settings = JsonObjectField(
        required=False,
        label=_("Further engine settings"),
        help_text=_("A JSON object of what has no field here, handed to the engine as it is."),
    )

    stored_resources: Mapping[str, Any] = {}
    stored_pod: Mapping[str, Any] = {}
    """Those of the service as it is."""

    def __init__(self, data: QueryDict | None = None, *, initial: Mapping[str, Any] | None = None) -> None:
        super().__init__(data, initial=dict(initial or {}))
        self.engine_name = str(self["engine"].value() or SERVED_ENGINES[0])
        add_engine_fields(self, self.engine_name)
        add_pod_fields(self, self.engine_name)

    def clean(self) -> dict[str, Any] | None:
        for key in told_twice(self, self.engine_name):
            self.add_error("settings", _("%(key)s has a field of its own: give it once.") % {"key": key})
        return super().clean()

    @property
    def main_fields(self) -> list[forms.BoundField]:
        """Return the fields that every service has, whatever its engine."""
        beside = {
            "settings",
            *RULE_FIELDS,
            *(field.name for field in (*self.engine_fields, *self.pod_fields)),
        }
        return [field for field in self.visible_fields() if field.name not in beside]

    @property
    def engine_fields(self) -> list[forms.BoundField]:
        return engine_fields(self)

    @property
    def pod_fields(self) -> list[forms.BoundField]:
        return pod_fields(self)

    @property
    def has_pod(self) -> bool:
        """Whether anything is asked of its pods, or wrong with it."""
        return any(field.errors or field.value() for field in self.pod_fields)

    @property
    def is_expert(self) -> bool:
        """Whether the settings that have no field are of interest."""
        return bool(self["settings"].errors or self["settings"].value())

    def chosen_version(self) -> Version | None:
        """Return the version whose memory the advice is about."""
        return None

    def chosen_cluster(self) -> Cluster | None:
        """Return the cluster on whose GPUs the workers will run."""
        return None

    @property
    def advice(self) -> MemoryAdvice | None:
        """Return advice on a worker's memory, by what is filled in; None while no version is chosen."""
        version, cluster = self.chosen_version(), self.chosen_cluster()
        if version is None or cluster is None:
            return None
        return advice_for(
            version,
            cluster,
            engine=self.engine_name,
            device=str(self["device"].value()),
            slots=typed_number(self["slots"], 1),
            gpus_per_worker=typed_number(self["gpus_per_worker"], 1),
            settings=typed_settings(self),
        )

    def changes(self) -> dict[str, Any]:
        """Return the changes as `services.change_service` names them."""
        given = without_engine_fields(self.cleaned_data)
        given = {name: value for name, value in given.items() if not is_pod_field(name)}
        given["settings"] = settings_in(self)
        given["plan_name"] = given.pop("plan")
        gpus = given.pop("gpus_per_worker")
        resources, given["pod"] = asked_in(self, self.stored_pod)
        stored = self.stored_resources.get("gpus_per_worker")
        if gpus is not None and gpus != (1 if stored is None else stored):
            stored = gpus
        given["resources"] = resources | ({} if stored is None else {"gpus_per_worker": stored})
        given.pop("reason", None)
        return given


class ServiceChangeForm(ServiceSettings):
    revision = forms.IntegerField(widget=forms.HiddenInput)
    """Of the service as the person saw it, so that nobody's change is lost."""
    reason = reason_field(_("Required when the plan demands less of releases than the one before."))

    def __init__(
        self,
        data: QueryDict | None = None,
        *,
        service: Service,
        actor: Actor,
        typed: Mapping[str, Any] | None = None,
    ) -> None:
        """`typed`: what a person who chooses still has filled in so far."""
        names = (
            "description",
            "engine",
            "device",
            "replicas",
            "slots",
            "alias",
            "image",
            "settings",
            "resources",
            "pod",
            "revision",
        )
        initial: dict[str, Any] = {name: getattr(service, name) for name in names}
        initial["plan"] = service.plan_name
        initial["gpus_per_worker"] = service.resources.get("gpus_per_worker", 1)
        super().__init__(data, initial=initial | dict(typed or {}))
        self._service = service
        self.stored_resources, self.stored_pod = service.resources, service.pod
        self.fields["plan"].choices = plan_choices(actor, service.team)  # type: ignore[attr-defined]
        offer_images(self, catalogue.usable_by(service.team).order_by("engine", "name"))

    def chosen_version(self) -> Version | None:
        """The one that serves; before the first has come up, the newest."""
        return self._service.stable_version or ready_versions(self._service.model).first()

    def chosen_cluster(self) -> Cluster | None:
        return self._service.cluster


class NewServiceForm(ServiceSettings, ClusterRuleFields):
    team = forms.ModelChoiceField(
        label=_("Team"), queryset=Team.objects.none(), empty_label=None, to_field_name="name"
    )
    name = forms.CharField(
        label=_("Name"),
        max_length=50,
        validators=[service_name],
        help_text=_("Part of its address: /name/v1/chat/completions. Lower-case letters, digits, hyphens."),
        widget=forms.TextInput(attrs={"spellcheck": "false", "autocapitalize": "off", "autocomplete": "off"}),
    )
    model = forms.ModelChoiceField(
        label=_("Model"),
        queryset=Model.objects.none(),
        empty_label=_("Choose a model"),
        to_field_name="name",
    )
    version = VersionChoice(
        label=_("Version"),
        queryset=Version.objects.none(),
        empty_label=None,
        to_field_name="name",
        help_text=_("First version to serve, once its workers pass the smoke test."),
    )
    cluster = forms.ModelChoiceField(
        label=_("Cluster"),
        queryset=Cluster.objects.none(),
        empty_label=_("Picked by a rule"),
        to_field_name="name",
        required=False,
    )

    field_order = (
        "name", "team", "model", "version", "cluster", "description", "replicas", "gpus_per_worker", "slots",
        "engine", "device", "image", "plan", "alias", "settings",
    )  # fmt: skip

    def __init__(
        self, data: QueryDict | None = None, *, actor: Actor, typed: Mapping[str, Any] | None = None
    ) -> None:
        """`typed`: what a person who chooses still has filled in so far."""
        super().__init__(data, initial=typed)
        self.team_fields(actor)
        model = self._chosen("model")
        fields: dict[str, Any] = self.fields
        if model is not None:
            fields["version"].queryset = ready_versions(model)
        if not fields["version"].queryset.exists():
            fields["version"].empty_label = _("No version is ready") if model else _("Choose a model first")

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if Service.objects.filter(name=name).exists():
            raise forms.ValidationError(_("There is a service of this name already. Choose another name."))
        return name

    def team_fields(self, actor: Actor) -> None:
        fields: dict[str, Any] = self.fields
        fields["team"].queryset = teams_where(actor, Right.SERVICES_WRITE).order_by("name")
        fields["model"].queryset = Model.objects.for_actor(actor).live().order_by("name")
        fields["cluster"].queryset = Cluster.objects.for_actor(actor).order_by("name")
        fields["cluster"].initial = getattr(fields["cluster"].queryset.first(), "name", "")
        team = self._chosen("team") or fields["team"].queryset.first()
        names = plan_choices(actor, team) if team else [(name, name) for name in builtin_plans()]
        fields["plan"].choices = names
        usable = catalogue.usable_by(team) if team else RuntimeImage.objects.none()
        offer_images(self, usable.order_by("engine", "name"))
        fields["plan"].initial = DEFAULT_PLAN

    def chosen_version(self) -> Version | None:
        """The one that the browser shows as chosen."""
        rows: QuerySet[Version] = self.fields["version"].queryset  # type: ignore[attr-defined]
        return rows.filter(name=self["version"].value() or "").first() or rows.first()

    def chosen_cluster(self) -> Cluster | None:
        rows: QuerySet[Cluster] = self.fields["cluster"].queryset  # type: ignore[attr-defined]
        if self.is_by_rule:
            picked = self.picked
            return rows.filter(name=picked.cluster).first() if picked else None
        return self._chosen("cluster") or rows.first()

    def rule_of_team(self) -> Team | None:
        teams: QuerySet[Team] = self.fields["team"].queryset  # type: ignore[attr-defined]
        return self._chosen("team") or teams.first()

    def changes(self) -> dict[str, Any]:
        given = super().changes()
        rule = rule_in(given)
        return given if given["cluster"] is not None else given | {"cluster_rule": rule}

    def _chosen(self, name: str) -> Any:
        """Return what the person has chosen so far, if it exists."""
        value = self.data.get(name) if self.is_bound else self.initial.get(name)
        try:
            return self.fields[name].clean(value) if value else None
        except forms.ValidationError:
            return None
