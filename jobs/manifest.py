"""Jobs of services and where they show."""

from collections.abc import Iterator

from django.db.models import Count
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from prometheus_client.metrics_core import Metric

from common.alert_checks import AlertCheck, measured
from common.choices import ChoiceSet
from common.declared import AppManifest
from common.metrics import gauge
from common.pages.badges import Badge
from common.pages.subjects import Subject
from jobs.consumers import JobTopic
from jobs.models import ServiceJob
from jobs.pages import PAGES
from jobs.reconcilers import JobMirrorReconciler
from jobs.selectors import has_own_jobs
from jobs.states import ServiceJobState
from releases.held_workers import register_hold


def jobs_by_state() -> Iterator[Metric]:
    counts = ServiceJob.objects.values_list("service__name", "state").annotate(number=Count("pk"))
    samples = [((service, state), float(number)) for service, state, number in counts]
    yield gauge("jobs", "Jobs of services by state.", ("service", "state"), samples)


MANIFEST = AppManifest(
    reconcilers=(JobMirrorReconciler(),),
    subjects=(
        Subject("jobs.servicejob", _("Job"), "/jobs/{pk}/", badges="job"),
        Subject("jobs.jobmirror", _("Reader of jobs"), "/jobs/"),
    ),
    choices=(ChoiceSet(ServiceJobState, badges="job", schema="ServiceJobState"),),
    badges={
        "job": {
            "queued": Badge(_("Queued"), "idle", "clock"),
            "running": Badge(_("Running"), "busy", "loader-2"),
            "succeeded": Badge(_("Succeeded"), "good", "circle-check"),
            "failed": Badge(_("Failed"), "bad", "alert-triangle"),
            "cancelled": Badge(_("Cancelled"), "idle", "circle-minus"),
        }
    },
    nav=(PAGES.nav,),
    search=(PAGES.search,),
    destinations=PAGES.destinations,
    nouns={"jobs": lambda count: ngettext("job", "jobs", count)},
    topics=(JobTopic(),),
    metrics=(jobs_by_state,),
    alert_checks=(
        AlertCheck(
            name="SlipwayJobsFailed",
            title=_("Jobs of a service have failed their last attempt"),
            severity="warning",
            find=measured(jobs_by_state, "jobs", by=("service",), state="failed"),
            note=_("Their pages say why; a retry sends them to the stable version."),
        ),
    ),
    hooks=(lambda: register_hold(has_own_jobs),),
)
