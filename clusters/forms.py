"""Forms of clusters. Fields only: services decide."""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from accounts.models import Team
from accounts.selectors import may_everywhere, teams_where
from accounts.states import Right
from clusters.backends.kubernetes.configured import KUBECONFIG
from clusters.backends.kubernetes.rights import NEEDED, Feature
from clusters.backends.kubernetes.settings import FileDeliveryKind
from clusters.draining.options import (
    CHECKPOINT_SECONDS,
    MOST_SECONDS,
    REPLACE_SECONDS,
    USUAL_SECONDS,
    DrainOptions,
    NamespacePolicy,
    namespaces_of,
    text_of,
)
from clusters.models import Cluster
from common.actor import Actor
from common.audit import MAX_REASON
from common.pages.fields import PairsField, lines_input, name_input
from common.pages.forms import PLAIN

MOST_FILE_BYTES = 256 * 1024
FEATURES = (
    (Feature.NODE_OPERATIONS.value, _("Cordon and taint machines")),
    (Feature.CAPACITY.value, _("Count the GPUs that pods of other namespaces use")),
    (Feature.DRAIN.value, _("Drain machines: see and evict pods of all namespaces")),
    (Feature.FORCED_DRAIN.value, _("Force drains past disruption budgets: delete pods of all namespaces")),
    (Feature.CHECKPOINTS.value, _("Ask pods for a checkpoint before a drain: change pods of all namespaces")),
    (Feature.GROUPS.value, _("Run workers that span machines (LeaderWorkerSets)")),
    (Feature.GATEWAY.value, _("Split traffic by the cluster's gateway (HTTPRoutes)")),
    (Feature.INFERENCE.value, _("Route to InferencePools")),
    (Feature.GRAPHS.value, _("Run task graphs on Ray (KubeRay)")),
    (Feature.QUEUES.value, _("Leave the admission of workloads to Kueue")),
    (Feature.JOBS.value, _("Run jobs: fill model volumes, check GPUs")),
    (Feature.CHECKS.value, _("Read namespaces, volume claims, storage and gateway classes for the checks")),
)
"""Beside what everything rests on."""
SETTINGS = ("context", "namespace", "store_url", "model_files", "model_claim", "storage_class")
"""Of a Kubernetes cluster, those that the form has."""


class ManifestForm(forms.Form):
    """Features that an administrator of the cluster is to grant."""

    namespace = forms.CharField(
        label=_("Namespace"), max_length=63, initial="slipway", widget=name_input("slipway"), required=False
    )
    features = forms.MultipleChoiceField(
        label=_("Permissions"),
        choices=FEATURES,
        required=False,
        widget=forms.CheckboxSelectMultiple,
        initial=[name for name, _label in FEATURES],
        help_text=_("Reading machines and running workers is always included."),
    )

    def wanted(self) -> dict[str, Any]:
        """Return the arguments of `services.grants.granted`; the initial ones while nothing was chosen."""
        if not self.is_bound:
            return {"namespace": "slipway", "features": [name for name, _label in FEATURES]}
        given = self.cleaned_data
        return {"namespace": given["namespace"] or "slipway", "features": [*NEEDED, *given["features"]]}


class ClusterSettingsForm(forms.Form):
    """Settings that may be changed; an empty kubeconfig keeps the stored one."""

    region = forms.CharField(
        label=_("Region"),
        max_length=63,
        required=False,
        widget=name_input("eu-central"),
        help_text=_("As in the mirrors of images."),
    )
    provider = forms.CharField(label=_("Provider"), max_length=63, required=False, widget=name_input("aws"))
    labels = PairsField(
        label=_("Labels"),
        required=False,
        help_text=_("One per line: key=value."),
        widget=lines_input("tier=gold"),
    )


class KubernetesForm(ClusterSettingsForm):
    kubeconfig_file = forms.FileField(label=_("Kubeconfig file"), required=False)
    kubeconfig = forms.CharField(
        label=_("or its text"),
        required=False,
        strip=False,
        max_length=MOST_FILE_BYTES,
        widget=forms.Textarea(attrs={"rows": 6, "class": "mono", "placeholder": "apiVersion: v1", **PLAIN}),
        help_text=_("Of a service account. Stored encrypted, never shown again."),
    )
    context = forms.CharField(
        label=_("Context"),
        required=False,
        max_length=253,
        widget=name_input(),
        help_text=_("Of the kubeconfig; empty: its current one."),
    )
    namespace = forms.CharField(
        label=_("Namespace"),
        max_length=63,
        widget=name_input("slipway"),
        initial="slipway",
        help_text=_("In which workers run."),
    )
    model_files = forms.ChoiceField(
        label=_("Model files"),
        choices=(
            (FileDeliveryKind.AUTO.value, _("By what the cluster has")),
            (FileDeliveryKind.NODE_CACHE.value, _("Each machine keeps a cache")),
            (FileDeliveryKind.FILLED_CLAIM.value, _("A volume claim per version, filled by a job")),
            (FileDeliveryKind.CLAIM.value, _("A volume claim that all machines can read")),
        ),
    )
    store_url = forms.CharField(
        label=_("Address of Slipway"),
        required=False,
        max_length=300,
        widget=name_input("https://slipway.example.org"),
        help_text=_("At which pods reach it; needed where machines keep a cache, or a job fills claims."),
    )
    model_claim = forms.CharField(
        label=_("Volume claim"), required=False, max_length=253, widget=name_input("slipway-models")
    )

    storage_class = forms.CharField(
        label=_("Storage class"),
        required=False,
        max_length=253,
        widget=name_input(),
        help_text=_("Of the volume claims of versions; empty: the default, or the first that is shared."),
    )

    field_order = (
        "name", "team", "kubeconfig_file", "kubeconfig", "context", "namespace", "model_files", "store_url",
        "model_claim", "storage_class", "region", "provider", "labels",
    )  # fmt: skip

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or {}
        file = given.pop("kubeconfig_file", None)
        if file is not None and given.get("kubeconfig", "").strip():
            self.add_error("kubeconfig", _("Give the file or its text, not both."))
        elif file is not None and file.size > MOST_FILE_BYTES:
            self.add_error("kubeconfig_file", _("This is not a kubeconfig: it is too large."))
        elif file is not None:
            try:
                given["kubeconfig"] = file.read().decode()
            except UnicodeDecodeError:
                self.add_error("kubeconfig_file", _("This is not a kubeconfig: it is not text."))
        return given

    def wishes(self, before: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the arguments of services; settings that the form lacks stay as they were."""
        given = dict(self.cleaned_data)
        kubeconfig = given.pop(KUBECONFIG)
        settings = {key: value for key in SETTINGS if (value := given.pop(key))}
        kept = {key: value for key, value in (before or {}).items() if key not in SETTINGS}
        wishes = given | {"settings": kept | settings}
        return wishes | ({"secrets": {KUBECONFIG: kubeconfig}} if kubeconfig.strip() else {})


class NewClusterForm(KubernetesForm):
    name = forms.CharField(
        label=_("Name"),
        max_length=63,
        widget=name_input("prod"),
        help_text=_("Lower-case letters, digits and hyphens; unique over all teams."),
    )
    team = forms.ModelChoiceField(
        Team.objects.none(),
        to_field_name="name",
        label=_("Team"),
        help_text=_("The owner: its services may run there."),
    )

    def __init__(self, *args: Any, actor: Actor, **options: Any) -> None:
        super().__init__(*args, **options)
        field: Any = self.fields["team"]
        field.queryset = teams_where(actor, Right.FLEET_OPERATE).order_by("name")
        if may_everywhere(actor, Right.FLEET_OPERATE):
            field.required, field.empty_label = False, _("Shared by all teams")
        else:
            field.empty_label = None


class ClusterChangeForm(KubernetesForm):
    revision = forms.IntegerField(widget=forms.HiddenInput)

    def __init__(self, data: Any = None, files: Any = None, *, cluster: Cluster) -> None:
        initial = {name: cluster.settings[name] for name in SETTINGS if name in cluster.settings}
        for name in ("region", "provider", "labels", "revision"):
            initial[name] = getattr(cluster, name)
        super().__init__(data, files, initial=initial)
        self.fields["kubeconfig"].help_text = _("Empty: the stored one stays. It is never shown.")


class OtherClusterChangeForm(ClusterSettingsForm):
    """Change of a cluster without credentials."""

    revision = forms.IntegerField(widget=forms.HiddenInput)

    def __init__(self, data: Any = None, files: Any = None, *, cluster: Cluster) -> None:
        names = ("region", "provider", "labels", "revision")
        super().__init__(data, files, initial={name: getattr(cluster, name) for name in names})

    def wishes(self, before: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return dict(self.cleaned_data)


class DrainOptionsForm(forms.Form):
    """Options of a drain, whoever orders it."""

    reason = forms.CharField(
        label=_("Reason"), max_length=MAX_REASON, widget=forms.TextInput(attrs={**PLAIN})
    )
    within_minutes = forms.IntegerField(
        label=_("Time limit in minutes"),
        min_value=1,
        max_value=MOST_SECONDS // 60,
        initial=USUAL_SECONDS // 60,
        help_text=_("On timeout the drain fails and lists the remaining pods."),
    )
    checkpoint_minutes = forms.IntegerField(
        label=_("Minutes for checkpoints"),
        min_value=0,
        max_value=MOST_SECONDS // 60,
        initial=CHECKPOINT_SECONDS // 60,
        required=False,
        help_text=_("Pods with the annotation slipway.io/checkpoint write one first. 0: nobody is asked."),
    )
    replace_minutes = forms.IntegerField(
        label=_("Minutes for replacements"),
        min_value=0,
        max_value=MOST_SECONDS // 60,
        initial=REPLACE_SECONDS // 60,
        required=False,
        help_text=_(
            "Workers of Slipway are started on other machines first, where there is room, and ready before "
            "these are evicted. At most half of the time limit. 0: at once."
        ),
    )
    grace_seconds = forms.IntegerField(
        label=_("Grace period in seconds"),
        min_value=1,
        max_value=MOST_SECONDS,
        required=False,
        help_text=_("For each pod to end. Empty: its own."),
    )
    namespaces = forms.CharField(
        label=_("Namespaces"),
        required=False,
        widget=forms.Textarea(attrs={**PLAIN, "rows": 3, "placeholder": "batch = finish:1800"}),
        help_text=_(
            "One a line: NAME = evict, NAME = leave or NAME = finish:SECONDS; * is every other one. The "
            "address of a webhook after it is asked for a checkpoint of each pod first, until it says done."
        ),
    )
    local_data_may_go = forms.BooleanField(
        label=_("Also evict pods with emptyDir volumes, whose data is lost"), required=False
    )
    unowned_may_go = forms.BooleanField(
        label=_("Also evict pods that no controller recreates"), required=False
    )
    past_budgets = forms.BooleanField(
        label=_("Delete pods whatever their disruption budgets say"), required=False
    )

    def clean_namespaces(self) -> Mapping[str, NamespacePolicy]:
        try:
            return namespaces_of(self.cleaned_data["namespaces"])
        except ValueError as error:
            raise forms.ValidationError(str(error)) from None

    def options(self) -> DrainOptions:
        given = self.cleaned_data
        return DrainOptions(
            within_seconds=given["within_minutes"] * 60,
            grace_seconds=given["grace_seconds"],
            checkpoint_seconds=_seconds(given["checkpoint_minutes"], CHECKPOINT_SECONDS),
            replace_seconds=_seconds(given["replace_minutes"], REPLACE_SECONDS),
            gpu_pods_only=given.get("gpu_pods_only", False),
            local_data_may_go=given["local_data_may_go"],
            unowned_may_go=given["unowned_may_go"],
            past_budgets=given["past_budgets"],
            namespaces=given["namespaces"],
        )

    @staticmethod
    def initial_of(options: DrainOptions) -> dict[str, Any]:
        """Return the options as initial values of the fields."""
        return {
            **options.document(),
            "within_minutes": -(-options.within_seconds // 60),
            "checkpoint_minutes": -(-options.checkpoint_seconds // 60),
            "replace_minutes": -(-options.replace_seconds // 60),
            "namespaces": text_of(options.namespaces),
        }


class DrainForm(DrainOptionsForm):
    """Order to drain one machine."""

    gpu_pods_only = forms.BooleanField(label=_("Leave pods without GPUs"), required=False)


def _seconds(minutes: int | None, usual: int) -> int:
    return usual if minutes is None else minutes * 60
