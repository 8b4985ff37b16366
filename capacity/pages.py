"""Where people meet workloads: list, one of them, a form to submit one."""

import shlex
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.resource_pages import NewTeamRowForm, ResourceColumn, ResourceVerb, TeamResource
from accounts.states import Right
from capacity.filters import WorkloadFilter
from capacity.logs import workload_log
from capacity.models import MOST_CARDS, MOST_WORKLOAD_MACHINES, Workload
from capacity.selectors import pool_named
from capacity.services import workloads as workload_services
from capacity.states import HOLDING, WorkloadKind, WorkloadState
from clusters.services.logs import LOG_LINES
from common.actor import Actor
from common.pages.answers import page
from common.pages.logs import log_context


class NewWorkload(NewTeamRowForm):
    pool = forms.CharField(max_length=63, label=gettext_lazy("Pool"))
    kind = forms.ChoiceField(choices=WorkloadKind.choices, label=gettext_lazy("Kind"))
    command = forms.CharField(
        max_length=4_000,
        label=gettext_lazy("Command"),
        help_text=gettext_lazy("Program and arguments, quoted as in a shell; no shell runs them."),
    )
    cards = forms.IntegerField(min_value=1, max_value=MOST_CARDS, initial=1, label=gettext_lazy("Cards"))
    machines = forms.IntegerField(
        min_value=1,
        max_value=MOST_WORKLOAD_MACHINES,
        initial=1,
        required=False,
        label=gettext_lazy("Machines"),
        help_text=gettext_lazy("It starts on all of them at once, with so many cards of each."),
    )
    priority = forms.IntegerField(initial=0, required=False, label=gettext_lazy("Priority"))
    image = forms.CharField(
        max_length=300,
        required=False,
        label=gettext_lazy("Image"),
        help_text=gettext_lazy("By digest; empty: that of the cluster's jobs. Processes have none."),
    )
    claim = forms.CharField(max_length=63, required=False, label=gettext_lazy("Volume claim for checkpoints"))
    is_preemptible = forms.BooleanField(initial=True, required=False, label=gettext_lazy("Preemptible"))
    writes_checkpoints = forms.BooleanField(
        initial=True, required=False, label=gettext_lazy("Writes checkpoints when asked")
    )
    may_lose_work = forms.BooleanField(
        required=False, label=gettext_lazy("May be stopped without a checkpoint")
    )
    expected_seconds = forms.IntegerField(
        min_value=1, required=False, label=gettext_lazy("Expected duration (s)")
    )

    field_order = ("name", "team", "pool", "kind", "command", "cards", "machines", "priority")

    def clean_command(self) -> list[str]:
        try:
            return shlex.split(self.cleaned_data["command"])
        except ValueError as error:
            raise forms.ValidationError(_("Close the quotes: %(fault)s.") % {"fault": error}) from None

    def clean_machines(self) -> int:
        return int(self.cleaned_data["machines"] or 1)

    def clean_priority(self) -> int:
        return int(self.cleaned_data["priority"] or 0)


def _submit(*, actor: Actor, pool: str, **columns: Any) -> Workload:
    return workload_services.submit_workload(actor=actor, pool=pool_named(actor, pool), **columns)


class WorkloadPages(TeamResource):
    """The page of a workload has the log of its latest run, read while it is written."""

    def _shown(self, request: HttpRequest, row: Workload, context: dict[str, Any]) -> HttpResponse:
        if request.headers.get("HX-Target") == "facts":
            return super()._shown(request, row, context)
        told = {"run": row.runs}
        log = {
            **log_context(request, lambda text: workload_log(row, lines=LOG_LINES, text=text)),
            "log_lines": LOG_LINES,
            "log_of": _("run %(run)s") % told
            if row.holds_cards
            else _("run %(run)s, which has ended") % told,
        }
        return page(request, "capacity/workload.html", {**context, **log}, parts=("log",))


PAGES = WorkloadPages(
    model=Workload,
    noun="workloads",
    title=gettext_lazy("Workloads"),
    new=gettext_lazy("New workload"),
    about=gettext_lazy("A workload is a training or batch job that borrows GPUs of a pool."),
    path="/workloads/",
    icon="stack-2",
    rank=56,
    right=Right.CAPACITY_WRITE,
    filters=WorkloadFilter,
    form=NewWorkload,
    create=_submit,
    columns=(
        ResourceColumn(gettext_lazy("Name"), "name"),
        ResourceColumn(gettext_lazy("State"), "state", badges="workload"),
        ResourceColumn(gettext_lazy("Pool"), "pool.name"),
        ResourceColumn(gettext_lazy("Cards"), "cards"),
        ResourceColumn(gettext_lazy("Machines"), "machines", is_listed=False),
        ResourceColumn(gettext_lazy("Priority"), "priority"),
        ResourceColumn(gettext_lazy("Runs"), "runs", is_listed=False),
        ResourceColumn(gettext_lazy("Last checkpoint"), "checkpoint_at", is_listed=False),
        ResourceColumn(gettext_lazy("Work lost (card-seconds)"), "lost_seconds", is_listed=False),
        ResourceColumn(gettext_lazy("Reason"), "why"),
        ResourceColumn(gettext_lazy("Created"), "created_at"),
    ),
    verbs=(
        ResourceVerb(
            "suspend", gettext_lazy("Suspend"), "player-pause", workload_services.hold_workload,
            (*HOLDING, WorkloadState.QUEUED), tone="plain", when=lambda row: not row.held_by,
        ),
        ResourceVerb(
            "resume", gettext_lazy("Resume"), "player-play", workload_services.release_workload,
            (WorkloadState.QUEUED,), when=lambda row: bool(row.held_by),
        ),
        ResourceVerb(
            "cancel", gettext_lazy("Cancel workload"), "x", workload_services.cancel_workload,
            (*HOLDING, WorkloadState.QUEUED), tone="bad",
        ),
    ),
)  # fmt: skip
