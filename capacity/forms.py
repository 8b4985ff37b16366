from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from accounts.resource_pages import NewTeamRowForm
from capacity.models.groups import LONGEST_BOUND_MS, LONGEST_WAIT_SECONDS
from capacity.models.queues import LONGEST_ITEM_SECONDS
from capacity.replays import LONGEST_HOURS
from capacity.states import CardSharing, Granularity, PoolKind, PoolMode, QueueKind, WorkloadAdmission
from clusters.models import MAX_REPLICAS, Cluster
from common.pages.forms import MomentInput

TOGETHER = _("That may run at once, of all its services together.")


class MachineLabelsField(forms.CharField):
    """Labels, one a line: `key=value`."""

    widget = forms.Textarea(attrs={"rows": 2})

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else value

    def clean(self, value: Any) -> Any:
        found = {}
        for line in super().clean(value).split():
            key, sign, text = line.partition("=")
            if not (key and sign and text):
                raise forms.ValidationError(_("%(line)s is no label: key=value."), params={"line": line})
            found[key] = text
        return found


class InventoryField(forms.CharField):
    """Declared machines, one a line: `name cards model rack`, the last two optional."""

    widget = forms.Textarea(attrs={"rows": 3})

    def prepare_value(self, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        return "\n".join(
            f"{m['machine']} {m['cards']} {m.get('model', '')} {m.get('rack', '')}".strip() for m in value
        )

    def clean(self, value: Any) -> Any:
        found = []
        for line in super().clean(value).splitlines():
            words = line.split()
            if not words:
                continue
            if not 2 <= len(words) <= 4 or not words[1].isdecimal():
                raise forms.ValidationError(
                    _("%(line)s is no machine: name, cards, model, rack."), params={"line": line}
                )
            found.append(
                {
                    "machine": words[0],
                    "cards": int(words[1]),
                    **dict(zip(("model", "rack"), words[2:], strict=False)),
                }
            )
        return found


class MachineFields(forms.Form):
    """Fields of pools of machines or cards."""

    selector = MachineLabelsField(
        required=False, label=_("Labels of its machines"), help_text=_("One a line: key=value.")
    )
    inventory = InventoryField(
        required=False,
        label=_("Declared machines (simulated)"),
        help_text=_("One a line: name, cards, model, rack. Only on a cluster of one machine."),
    )
    admission = forms.ChoiceField(
        choices=WorkloadAdmission.choices,
        required=False,
        initial=WorkloadAdmission.SLIPWAY,
        label=_("Workloads are admitted by"),
        help_text=_("Kueue: it decides when they start, by the limits below. In Kubernetes alone."),
    )
    guarantee = forms.IntegerField(
        min_value=0,
        required=False,
        label=_("Guaranteed cards"),
        help_text=_("Empty: all that its machines have."),
    )
    lending_limit = forms.IntegerField(
        min_value=0, required=False, label=_("Cards that others may hold"), help_text=_("Empty: all.")
    )
    borrowing_limit = forms.IntegerField(
        min_value=0,
        required=False,
        label=_("Cards of others that it may hold"),
        help_text=_("Empty: all."),
    )
    priority = forms.IntegerField(required=False, label=_("Priority"))
    defragment_every_hours = forms.IntegerField(
        min_value=1,
        required=False,
        label=_("Plan defragmentation every (h)"),
        help_text=_("Empty: no schedule."),
    )
    defragment_after_seconds = forms.IntegerField(
        min_value=0,
        required=False,
        label=_("Plan it when a workload waits (s)"),
        help_text=_("Empty: it waits for its turn."),
    )

    def clean_admission(self) -> str:
        return str(self.cleaned_data["admission"] or WorkloadAdmission.SLIPWAY)

    def clean_priority(self) -> int:
        return int(self.cleaned_data["priority"] or 0)


class NewPool(NewTeamRowForm, MachineFields):
    cluster = forms.ModelChoiceField(Cluster.objects.none(), label=_("Cluster"), to_field_name="name")
    kind = forms.ChoiceField(
        choices=PoolKind.choices,
        label=_("Kind"),
        help_text=_(
            "Serving pools share workers, or whole machines, between services; all others hand out cards."
        ),
    )
    granularity = forms.ChoiceField(
        choices=[("", _("By kind")), *Granularity.choices], required=False, label=_("Unit")
    )
    workers = forms.IntegerField(
        min_value=1, max_value=MAX_REPLICAS, required=False, label=_("Workers"), help_text=TOGETHER
    )

    field_order = ("name", "team", "cluster", "kind", "granularity", "workers", "description")

    def clean(self) -> dict[str, Any]:
        """Leave out what was left empty, so that the pool takes its own default."""
        given = super().clean() or {}
        for name in ("granularity", "workers"):
            if not given.get(name):
                given.pop(name, None)
        return given


class PoolSettings(forms.Form):
    """Settings of a pool that may be changed."""

    state = forms.ChoiceField(
        choices=PoolMode.choices,
        label=_("Mode"),
        help_text=_("Advise shows plans; automatic applies them without asking."),
    )
    workers = forms.IntegerField(min_value=1, max_value=MAX_REPLICAS, label=_("Workers"), help_text=TOGETHER)
    budget = forms.IntegerField(min_value=1, label=_("Workers that one plan may move"))
    dwell_seconds = forms.IntegerField(min_value=0, label=_("Seconds that a service keeps a worker"))
    parallel_starts = forms.IntegerField(min_value=1, label=_("Workers that may start at once"))
    description = forms.CharField(max_length=500, required=False, label=_("Description"))


class WholeMachineSettings(PoolSettings):
    """Settings of a serving pool that hands out whole machines."""

    workers = None  # type: ignore[assignment]
    selector = MachineLabelsField(label=_("Labels of its machines"), help_text=_("One a line: key=value."))
    budget = forms.IntegerField(min_value=1, label=_("Machines that one plan may move"))
    dwell_seconds = forms.IntegerField(min_value=0, label=_("Seconds that a service keeps a machine"))
    parallel_starts = forms.IntegerField(min_value=1, label=_("Machines that may start at once"))


class OneServiceForm(forms.Form):
    """A form about one of the services that it is given."""

    service = forms.ChoiceField(label=_("Service"))

    def __init__(self, *args: Any, services: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["service"].choices = [(name, name) for name in services]  # type: ignore[attr-defined]


class ServiceGroupsForm(OneServiceForm):
    least_online = forms.IntegerField(min_value=1, initial=1, label=_("Workers online at least"))
    wait_seconds = forms.IntegerField(
        min_value=0,
        max_value=LONGEST_WAIT_SECONDS,
        initial=5,
        label=_("Seconds to wait for a job"),
        help_text=_("Before its worker goes online; after that it goes back into the queue."),
    )
    latency_bound_ms = forms.IntegerField(
        min_value=1,
        max_value=LONGEST_BOUND_MS,
        required=False,
        label=_("Latency bound (ms)"),
        help_text=_("TTFT p95 above which all workers go online at once; empty: no bound."),
    )


class ServiceQueueForm(OneServiceForm):
    """The queue that a service works off."""

    kind = forms.ChoiceField(
        choices=QueueKind.choices,
        label=_("Kind"),
        help_text=_("All but the service's own jobs need an address, and the right to operate the fleet."),
    )
    url = forms.CharField(max_length=500, required=False, label=_("Address"))
    subject = forms.CharField(
        max_length=1_000,
        required=False,
        label=_("Key, query or region"),
        help_text=_("Key of a list or stream, query of a Prometheus, region of SQS, topic of Kafka."),
    )
    consumer_group = forms.CharField(max_length=200, required=False, label=_("Consumer group"))
    secret = forms.CharField(
        max_length=4_096,
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        label=_("Secret"),
        help_text=_("Password or token; of SQS KEY_ID:KEY. Empty: the stored one stays with its address."),
    )
    item_seconds = forms.FloatField(
        min_value=0.001,
        max_value=LONGEST_ITEM_SECONDS,
        required=False,
        label=_("Seconds of one item"),
        help_text=_("For which it keeps a worker; empty: measured, where the queue counts what arrives."),
    )
    deadline = forms.DateTimeField(
        required=False,
        widget=MomentInput(),
        label=_("Deadline"),
        help_text=_("By which all that waits is to be done; empty: within two start-up times."),
    )

    def clean_secret(self) -> str | None:
        return self.cleaned_data["secret"] or None


class ScalingPolicyForm(forms.Form):
    """Parameters that a policy sets of the law of scaling; empty fields follow from the switch time."""

    target = forms.FloatField(
        min_value=0.05,
        max_value=1,
        required=False,
        label=_("Target"),
        help_text=_("Utilisation, such as 0.8."),
    )
    hold_seconds = forms.FloatField(
        min_value=1,
        required=False,
        label=_("Hold (s)"),
        help_text=_("For which the need must have been lower before workers go."),
    )
    decrease_band = forms.FloatField(
        min_value=0,
        max_value=0.99,
        required=False,
        label=_("Band"),
        help_text=_("Share by which it must be lower, such as 0.12."),
    )
    drain_seconds = forms.FloatField(
        min_value=1,
        required=False,
        label=_("Drain (s)"),
        help_text=_("Within which what waits is to be worked off."),
    )
    hours = forms.IntegerField(
        min_value=1, max_value=LONGEST_HOURS, required=False, initial=24, label=_("Hours of the past")
    )
    reason = forms.CharField(max_length=500, required=False, label=_("Reason"))


class CardPoolSettings(MachineFields):
    """Settings of a pool of machines or cards that may be changed."""

    state = forms.ChoiceField(
        choices=PoolMode.choices,
        label=_("Mode"),
        help_text=_("Workloads start on free cards by themselves; the mode rules preemption and moves."),
    )
    description = forms.CharField(max_length=500, required=False, label=_("Description"))

    field_order = ("state",)


class DefragmentForm(forms.Form):
    """Machines to free by moving workloads."""

    cards = forms.IntegerField(min_value=1, initial=8, label=_("Cards of a machine"))
    machines = forms.IntegerField(min_value=1, initial=1, label=_("Machines to free"))


class NeedsField(forms.CharField):
    """Models that share a card, one a line: `name MiB share`, or the name of a service that was measured."""

    widget = forms.Textarea(attrs={"rows": 3})

    def clean(self, value: Any) -> Any:
        found = []
        for line in super().clean(value).splitlines():
            words = line.split()
            if not words:
                continue
            if len(words) == 1:
                found.append({"name": words[0]})
                continue
            try:
                name, memory, share = words
                found.append({"name": name, "memory_mib": int(memory), "share": float(share)})
            except ValueError:
                raise forms.ValidationError(
                    _("%(line)s is no need: name, MiB, share of the time; or the name of a service."),
                    params={"line": line},
                ) from None
        return found


class CardLayoutForm(forms.Form):
    """A card to divide, or to make whole."""

    machine = forms.CharField(max_length=253, label=_("Machine"))
    card = forms.IntegerField(
        min_value=0,
        required=False,
        label=_("Card"),
        help_text=_(
            "Number, on a declared machine or where pods claim parts; empty: any there, elsewhere all alike."
        ),
    )
    sharing = forms.TypedChoiceField(
        choices=CardSharing.choices,
        required=False,
        initial=CardSharing.MIG,
        empty_value=CardSharing.MIG,
        label=_("Divided by"),
        help_text=_("MPS: one team alone, for a model that faults ends the others."),
    )
    needs = NeedsField(
        required=False,
        label=_("Models that share it"),
        help_text=_(
            "One a line: name, MiB at its peak, share of the time such as 0.2; or only the name of a service "
            "that was measured. Empty: whole."
        ),
    )
    drain = forms.BooleanField(required=False, label=_("Have whoever holds it leave"))


class PoolMemberForm(OneServiceForm):
    guarantee = forms.IntegerField(
        min_value=0, max_value=MAX_REPLICAS, initial=1, label=_("Guaranteed workers")
    )
    limit = forms.IntegerField(min_value=0, max_value=MAX_REPLICAS, initial=8, label=_("Workers at most"))
    weight = forms.FloatField(min_value=0.01, initial=1.0, label=_("Weight"))


class WholeMachineMemberForm(PoolMemberForm):
    """A service's share in a pool that hands out whole machines."""

    guarantee = forms.IntegerField(
        min_value=0, max_value=MAX_REPLICAS, initial=1, label=_("Guaranteed machines")
    )
    limit = forms.IntegerField(min_value=0, max_value=MAX_REPLICAS, initial=8, label=_("Machines at most"))
