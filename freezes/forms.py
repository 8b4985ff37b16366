"""What people fill in about a freeze window. Fields only: services decide."""

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from django import forms
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from accounts.models import Team
from accounts.selectors import may_everywhere, teams_where
from accounts.states import Right
from clusters.models import Cluster
from common.actor import Actor
from common.audit import MAX_REASON
from freezes.states import FreezeEffect


class FreezeOwnerForm(forms.Form):
    """The team that a freeze concerns, or all of them where the actor may say so."""

    right = Right.FREEZES_STOP
    team = forms.ModelChoiceField(Team.objects.none(), to_field_name="name", label=_("Team"))

    def __init__(self, *args: Any, actor: Actor, **options: Any) -> None:
        super().__init__(*args, **options)
        field: Any = self.fields["team"]
        field.queryset = teams_where(actor, self.right).order_by("name")
        if may_everywhere(actor, self.right):
            field.required, field.empty_label = False, _("All teams")
        else:
            field.empty_label = None


class StopForm(FreezeOwnerForm):
    reason = forms.CharField(
        max_length=MAX_REASON, label=_("Reason"), help_text=_("Shown on releases that are held.")
    )


class WallTimeField(forms.DateTimeField):
    """A time by the clock of a zone that another field names, and so without one."""

    def to_python(self, value: Any) -> datetime | None:
        with timezone.override(UTC):
            given = super().to_python(value)
        return given.replace(tzinfo=None) if given else None


class FreezeForm(FreezeOwnerForm):
    right = Right.FREEZES_WRITE
    name = forms.CharField(max_length=100, label=_("Name"))
    service = forms.CharField(
        max_length=50, required=False, label=_("Service"), help_text=_("Only this service; empty: all.")
    )
    stage = forms.CharField(
        max_length=104,
        required=False,
        label=_("Stage"),
        help_text=_(
            "Only services in this stage of environments, such as production, or chat/production for those "
            "of one graph; empty: all."
        ),
    )
    cluster = forms.ModelChoiceField(
        Cluster.objects.none(),
        label=_("Cluster"),
        required=False,
        to_field_name="name",
        empty_label=_("All clusters"),
    )
    effect = forms.ChoiceField(choices=FreezeEffect.choices, label=_("Effect"))
    zone = forms.ChoiceField(label=_("Time zone"), help_text=_("By its clock each time begins and ends."))
    starts_at = WallTimeField(
        label=_("Starts"),
        widget=forms.DateTimeInput(attrs={"type": "datetime-local", "data-wall": True}),
        help_text=_("By the clock of this time zone."),
    )
    hours = forms.FloatField(
        min_value=0.02, max_value=8784, label=_("Hours"), help_text=_("Length of each time.")
    )
    recurrence = forms.CharField(
        max_length=300,
        required=False,
        label=_("Recurrence"),
        help_text=_("Rule of RFC 5545, such as FREQ=WEEKLY;BYDAY=FR or FREQ=YEARLY; empty: once."),
    )
    reason = forms.CharField(
        max_length=MAX_REASON,
        required=False,
        label=_("Reason"),
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text=_("Shown on releases that are held."),
    )

    scope = ("team", "service", "stage", "cluster")
    field_order = ("name", *scope, "effect", "zone", "starts_at", "hours", "recurrence")

    def __init__(self, *args: Any, actor: Actor, **options: Any) -> None:
        super().__init__(*args, actor=actor, **options)
        zones: Any = self.fields["zone"]
        zones.choices = [(name, name) for name in sorted(available_timezones())]
        zones.initial = timezone.get_current_timezone_name()
        clusters: Any = self.fields["cluster"]
        clusters.queryset = Cluster.objects.for_actor(actor, Right.READ).order_by("name")

    def columns(self) -> dict[str, Any]:
        """Return the arguments of the service."""
        given = dict(self.cleaned_data)
        given["starts_at"] = given["starts_at"].replace(tzinfo=ZoneInfo(given["zone"]))
        given["minutes"] = round(given.pop("hours") * 60)
        return given
