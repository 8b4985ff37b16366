"""Where people meet jobs: list, one of them, a form to submit one."""

from django import forms
from django.utils.translation import gettext_lazy

from accounts.resource_pages import ResourceColumn, ResourceVerb, TeamResource
from accounts.states import Right
from common.actor import Actor
from jobs import services
from jobs.filters import ServiceJobFilter
from jobs.models import ServiceJob
from jobs.selectors import service_named
from jobs.states import RETRIABLE, UNFINISHED


class NewServiceJob(forms.Form):
    service = forms.CharField(max_length=50, label=gettext_lazy("Service"))
    path = forms.CharField(
        max_length=300,
        label=gettext_lazy("Path"),
        help_text=gettext_lazy("Route of a job, for example /render."),
    )
    body = forms.CharField(
        required=False, label=gettext_lazy("Body (JSON)"), widget=forms.Textarea(attrs={"rows": 6})
    )


def _submit(*, actor: Actor, service: str, path: str, body: str = "") -> ServiceJob:
    return services.submit_job(actor=actor, service=service_named(actor, service), path=path, body=body)


PAGES = TeamResource(
    model=ServiceJob,
    noun="jobs",
    title=gettext_lazy("Jobs"),
    new=gettext_lazy("New job"),
    about=gettext_lazy("A job is a request to a service that waits in a queue until a worker takes it."),
    path="/jobs/",
    icon="list-check",
    rank=35,
    right=Right.JOBS_WRITE,
    filters=ServiceJobFilter,
    form=NewServiceJob,
    create=_submit,
    columns=(
        ResourceColumn(gettext_lazy("Job"), "name"),
        ResourceColumn(gettext_lazy("State"), "state", badges="job"),
        ResourceColumn(gettext_lazy("Service"), "service.name"),
        ResourceColumn(gettext_lazy("Path"), "description"),
        ResourceColumn(gettext_lazy("Version"), "version"),
        ResourceColumn(gettext_lazy("Progress"), "percent"),
        ResourceColumn(gettext_lazy("Attempts"), "attempts"),
        ResourceColumn(gettext_lazy("Error"), "error"),
        ResourceColumn(gettext_lazy("Created"), "created_at"),
    ),
    verbs=(
        ResourceVerb("cancel", gettext_lazy("Cancel job"), "x", services.cancel_job, UNFINISHED, tone="bad"),
        ResourceVerb("retry", gettext_lazy("Retry"), "refresh", services.retry_job, RETRIABLE),
    ),
)
