"""What services and releases add to the whole."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from accounts.states import Right
from capacity.events import WorkersMoved
from clusters.events import NodeDraining, WorkersChanged
from clusters.notes import register_deployment_notes
from clusters.uses import register_cluster_uses
from common.choices import ChoiceSet
from common.configuration import ConfigurationKind
from common.declared import AppManifest
from common.events import Subscription
from common.pages.cards import HomeCard
from common.pages.inbox import InboxSource
from common.pages.search import SearchDestination, SearchSource
from common.pages.shell import NavItem, Tab
from common.pages.subjects import Subject
from common.resealing import SealedColumn
from common.webhooks.catalogue import WebhookEventType
from freezes.events import FreezeChanged
from freezes.scopes import register_concerned
from gateway.models import KEY_PURPOSE
from gpu_health.events import NodeQuarantined, NodeReturned
from hubs.auto_release import register_auto_release
from models_registry.history import register_history
from models_registry.references import register_fallback_check, register_uses
from optimization.canary import register_canary_links
from releases import consumers, events, home, inbox, metrics, search, states, steps, subscribers
from releases.alert_checks import ALERT_CHECKS
from releases.auto_release import ReleaseAutomation
from releases.badges import BADGES
from releases.bake import warm_deployments
from releases.canary_links import canary_links
from releases.cluster_uses import releases_going_to
from releases.events import ReleaseEnded, ReleaseMoved, ServiceChanged
from releases.freezing import concerns_any
from releases.history import releases_of
from releases.machines import held_deployments
from releases.models import Service
from releases.pruning import RULES
from releases.reconcilers.release import ReleaseReconciler
from releases.selectors.adapters import ADAPTER_VERSIONS
from releases.selectors.releases import CANDIDATES, ways_back
from releases.selectors.services import STABLE_VERSIONS
from releases.states import ReleaseState
from releases.webhook_events import lowering_payload, release_payload

SUBJECTS = (
    Subject(
        "releases.release",
        _("Release"),
        "/releases/{pk}/",
        title=_("%(version__model__name)s:%(version__name)s to %(service__name)s"),
        badges="release",
    ),
    Subject("releases.approvaldelegation", _("Approval delegation"), "/settings/delegations/"),
    Subject("releases.environmentgraph", _("Environments"), "/environments/"),
    Subject("releases.service", _("Service"), "/services/{name}/"),
    Subject("releases.plan", _("Release plan"), "/settings/plans/{team__name}/{name}/"),
)
DESTINATIONS = (
    SearchDestination(
        title=_("New service"),
        url="/services/+new/",
        icon="route",
        words="create add deploy",
        right=Right.SERVICES_WRITE,
        is_command=True,
    ),
    SearchDestination(
        title=_("New release plan"),
        url="/settings/plans/+new/",
        icon="list-check",
        words="create add canary strategy",
        right=Right.SERVICES_WRITE,
        is_command=True,
    ),
    SearchDestination(title=_("Services"), url="/services/", icon="route", words="endpoints gateway"),
    SearchDestination(title=_("Releases"), url="/releases/", icon="rocket", words="canary rollback"),
    SearchDestination(
        title=_("Release plans"), url="/settings/plans/", icon="list-check", words="strategies canary"
    ),
)
WEBHOOK_EVENTS = (
    WebhookEventType(
        "release.moved",
        _("A release changed its state, step or phase."),
        release_payload,
        events.ReleaseMoved,
        ids=("release_id",),
    ),
    WebhookEventType(
        "release.waiting_approval",
        _("A release waits for approval."),
        release_payload,
        events.ApprovalAsked,
    ),
    WebhookEventType(
        "release.approval_due",
        _("The deadline of an approval is near, and nobody has decided."),
        release_payload,
        events.ApprovalDue,
    ),
    WebhookEventType(
        "release.notified",
        _("A release came to a notify step of its plan, which says the message."),
        release_payload,
        events.ReleaseNotified,
    ),
    WebhookEventType(
        "release.ended",
        _("A release was promoted, rolled back, rejected, aborted or failed."),
        release_payload,
        events.ReleaseEnded,
        ids=("release_id", "state"),
    ),
    WebhookEventType(
        "release.rollback",
        _("Somebody rolls back a promoted release; that needs no approval."),
        release_payload,
        events.RollbackStarted,
    ),
    WebhookEventType(
        "release.bypassed",
        _("A release was started that does not meet the release policy."),
        release_payload,
        events.PolicyBypassed,
    ),
    WebhookEventType(
        "release.overridden",
        _("Somebody let a release go on in spite of a freeze."),
        release_payload,
        events.FreezeOverridden,
    ),
    WebhookEventType(
        "policy.lowered",
        _("A team, a service or a plan demands less of releases than before."),
        lowering_payload,
        events.PolicyLowered,
    ),
)
CHOICES = (
    ChoiceSet(states.ApprovalDecision),
    ChoiceSet(states.Halt),
    ChoiceSet(states.IndicatorSource, schema="IndicatorSource"),
    ChoiceSet(states.PatchState, badges="pod_patch"),
    ChoiceSet(states.ReleaseHeader),
    ChoiceSet(states.ReleaseState, badges="release", schema="ReleaseState"),
    ChoiceSet(states.StepState, badges="step", schema="StepState"),
    ChoiceSet(states.ThresholdSource),
)


def _first_version(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stable version: a service that is made from its file begins with it."""
    return {"version": (row["stable"] or ":").partition(":")[2]}


def _stages_as_written(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stages without what is true of them at the moment."""
    fields = ("name", "service", "after", "is_automatic")
    return {"stages": [{field: stage[field] for field in fields} for stage in row["stages"]]}


CONFIGURATION = (
    ConfigurationKind(
        "plan",
        routes="plan",
        lookup="plan",
        parameters=("team",),
        is_exported=lambda row: row["team"] is not None,
    ),
    ConfigurationKind(
        "policy",
        routes="release-policy",
        lookup="team",
        named_by="team",
        within_team=False,
        emptied_by={"policy": {}},
    ),
    ConfigurationKind(
        "service", routes="service", lookup="service", within_team=False, exported=_first_version
    ),
    ConfigurationKind(
        "environments", routes="environment", lookup="pk", found_in_list=True, written=_stages_as_written
    ),
)

MANIFEST = AppManifest(
    configuration=CONFIGURATION,
    alert_checks=ALERT_CHECKS,
    choices=CHOICES,
    subscriptions=(
        Subscription(WorkersChanged, subscribers.show_workers),
        Subscription(ReleaseMoved, subscribers.show_release),
        Subscription(ServiceChanged, subscribers.show_service),
        Subscription(ServiceChanged, subscribers.promote_what_may_start),
        Subscription(events.PolicyLowered, subscribers.promote_what_is_allowed_now),
        Subscription(NodeReturned, subscribers.continue_releases),
        Subscription(FreezeChanged, subscribers.look_at_freezes),
        Subscription(ReleaseEnded, subscribers.promote_in_environments),
        Subscription(ReleaseEnded, subscribers.stop_benchmarks),
    ),
    witnesses=(
        Subscription(NodeQuarantined, subscribers.hold_quarantined),
        Subscription(NodeDraining, subscribers.hold_drained),
        Subscription(WorkersMoved, subscribers.keep_workers),
    ),
    sealed=(SealedColumn(Service, "sealed_release_key", KEY_PURPOSE),),
    reconcilers=(ReleaseReconciler(),),
    subjects=SUBJECTS,
    badges=BADGES,
    inbox=(
        InboxSource(
            find=inbox.approvals,
            tells=(("releases.release", ReleaseState.WAITING_APPROVAL),),
            topic="releases",
        ),
        InboxSource(find=inbox.pod_patches, topic="releases"),
        InboxSource(find=inbox.services_in_trouble, topic="releases"),
    ),
    cards=(
        HomeCard(
            name="motion",
            template="releases/_home.html",
            read=home.ReleasesCard,
            column="main",
            rank=20,
            topic="releases",
        ),
    ),
    nav=(
        NavItem(name=_("Services"), path="/services/", icon="route", rank=30, key="s"),
        NavItem(name=_("Releases"), path="/releases/", icon="rocket", rank=31, key="r"),
        NavItem(name=_("Environments"), path="/environments/", icon="git-branch", rank=32),
    ),
    tabs=(
        Tab(under="/settings/", name=_("Plans"), path="/settings/plans/", icon="list-check", rank=60),
        Tab(
            under="/settings/",
            name=_("Delegations"),
            path="/settings/delegations/",
            icon="user-share",
            rank=62,
        ),
    ),
    search=(
        SearchSource(_("Services"), search.find_services),
        SearchSource(_("Releases"), search.find_releases),
    ),
    destinations=DESTINATIONS,
    nouns={
        "releases": lambda count: ngettext("release", "releases", count),
        "services": lambda count: ngettext("service", "services", count),
    },
    topics=(consumers.ReleaseTopic(), consumers.ServiceTopic(), consumers.ReleasesTopic()),
    webhook_events=WEBHOOK_EVENTS,
    webhook_heading=_("Releases"),
    metrics=(metrics.releases_by_state, metrics.approval_waits, metrics.durations),
    pruning=RULES,
    hooks=(
        steps.load,
        partial(register_uses, STABLE_VERSIONS),
        partial(register_uses, CANDIDATES),
        partial(register_uses, ADAPTER_VERSIONS),
        partial(register_fallback_check, ways_back),
        partial(register_auto_release, ReleaseAutomation()),
        partial(register_canary_links, canary_links),
        partial(register_history, releases_of),
        partial(register_deployment_notes, warm_deployments),
        partial(register_deployment_notes, held_deployments),
        partial(register_cluster_uses, releases_going_to),
        partial(register_concerned, concerns_any),
    ),
)
