from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from accounts.resource_pages import NewTeamRowForm
from capacity.models.groups import LONGEST_BOUND_MS, LONGEST_WAIT_SECONDS
from capacity.replays import LONGEST_HOURS
from capacity.states import PoolMode
from clusters.models import MAX_REPLICAS, Cluster

TOGETHER = _("That may run at once, of all its services together.")


class NewPool(NewTeamRowForm):
    cluster = forms.ModelChoiceField(Cluster.objects.none(), label=_("Cluster"), to_field_name="name")
    workers = forms.IntegerField(min_value=1, max_value=MAX_REPLICAS, label=_("Workers"), help_text=TOGETHER)

    field_order = ("name", "team", "cluster", "workers", "description")


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


class ServiceGroupsForm(forms.Form):
    service = forms.ChoiceField(label=_("Service"))
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

    def __init__(self, *args: Any, services: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["service"].choices = [(name, name) for name in services]  # type: ignore[attr-defined]


class PolicyForm(forms.Form):
    """What a policy sets of the law of scaling; empty fields follow from the switch time."""

    target = forms.FloatField(
        min_value=0.05,
        max_value=1,
        required=False,
        label=_("Target"),
        help_text=_("Utilisation, such as 0.8."),
    )
    hold_seconds = forms.FloatField(min_value=1, required=False, label=_("Hold (s)"))
    decrease_band = forms.FloatField(min_value=0, max_value=0.99, required=False, label=_("Band"))
    drain_seconds = forms.FloatField(min_value=1, required=False, label=_("Drain (s)"))
    hours = forms.IntegerField(
        min_value=1, max_value=LONGEST_HOURS, required=False, initial=24, label=_("Hours of the past")
    )
    reason = forms.CharField(max_length=500, required=False, label=_("Reason"))


class PoolMemberForm(forms.Form):
    service = forms.ChoiceField(label=_("Service"))
    guarantee = forms.IntegerField(
        min_value=0, max_value=MAX_REPLICAS, initial=1, label=_("Guaranteed workers")
    )
    limit = forms.IntegerField(min_value=0, max_value=MAX_REPLICAS, initial=8, label=_("Workers at most"))
    weight = forms.FloatField(min_value=0.01, initial=1.0, label=_("Weight"))

    def __init__(self, *args: Any, services: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["service"].choices = [(name, name) for name in services]  # type: ignore[attr-defined]
