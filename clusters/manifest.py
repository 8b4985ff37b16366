"""The manifest of the app clusters."""

from functools import partial

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from clusters import events, home, inbox, metrics, states
from clusters.alert_checks import ALERT_CHECKS
from clusters.backends.configured import SECRETS_PURPOSE
from clusters.badges import BADGES
from clusters.consumers import FleetTopic
from clusters.health import clusters_health
from clusters.image_pulls import pull_times
from clusters.models import Cluster, Deployment
from clusters.reconcilers.clusters import ClusterReconciler
from clusters.reconcilers.deployments import DeploymentReconciler
from clusters.reconcilers.drains import DrainReconciler
from clusters.reconcilers.logs import WorkerLogReconciler
from clusters.reconcilers.memory import RememberFleet
from clusters.reconcilers.nodes import NodeReconciler
from clusters.report_tokens import REPORT_TOKEN_PURPOSE
from clusters.search import find_deployments, find_workers
from clusters.selectors import VERSIONS_IN_USE, deployments_running
from clusters.subscribers import lay_out_repaired
from clusters.webhook_events import (
    cluster_payload,
    deployment_payload,
    drain_payload,
    node_payload,
    worker_payload,
)
from common.choices import ChoiceSet
from common.declared import AppManifest
from common.events import Subscription
from common.health import HealthProbe
from common.pages.cards import HomeCard
from common.pages.inbox import InboxSource
from common.pages.search import SearchDestination, SearchSource
from common.pages.shell import NavItem
from common.pages.subjects import Subject
from common.resealing import SealedColumn
from common.webhooks.catalogue import WebhookEventType
from images.uses import register_pull_times, register_use_check
from model_store.events import BlobRepaired
from models_registry.references import register_uses
from serving.engines.registry import SERVED_ENGINES

SUBJECTS = (
    Subject("clusters.cluster", _("Cluster"), "/fleet/clusters/{name}/"),
    Subject("clusters.node", _("Machine"), "/fleet/nodes/{pk}/", badges="node"),
    Subject("clusters.drain", _("Drain"), "/fleet/drains/{pk}/", badges="drain"),
    Subject("clusters.fleetmemory", _("Memory of the fleet"), "/fleet/"),
    Subject("clusters.workerlogrequest", _("Log of a worker"), "/fleet/workers/"),
    Subject("clusters.deployment", _("Deployment"), "/fleet/deployments/{name}/", badges="deployment"),
)
DESTINATIONS = (
    SearchDestination(title=_("Fleet"), url="/fleet/", icon="server-2", words="machines nodes gpus busy"),
    SearchDestination(
        title=_("Clusters"), url="/fleet/clusters/", icon="server-cog", words="kubernetes kubeconfig regions"
    ),
    SearchDestination(title=_("Workers"), url="/fleet/workers/", icon="cpu", words="replicas"),
    SearchDestination(title=_("Deployments"), url="/fleet/deployments/", icon="stack-2", words="workers"),
)
WEBHOOK_EVENTS = (
    WebhookEventType("cluster.added", _("A cluster was added."), cluster_payload, events.ClusterRegistered),
    WebhookEventType(
        "cluster.checks_failed",
        _("A check of a cluster fails that did not before: nothing can be released there."),
        cluster_payload,
        events.ClusterChecksFailed,
    ),
    WebhookEventType(
        "cluster.rights_lost",
        _("A cluster has taken back a right that Slipway had."),
        cluster_payload,
        events.ClusterRightsLost,
    ),
    WebhookEventType("cluster.removed", _("A cluster was removed."), cluster_payload, events.ClusterRemoved),
    WebhookEventType(
        "deployment.ready",
        _("All workers of a deployment are ready."),
        deployment_payload,
        events.DeploymentReady,
    ),
    WebhookEventType(
        "deployment.degraded",
        _("Some workers of a deployment are not ready."),
        deployment_payload,
        events.DeploymentDegraded,
    ),
    WebhookEventType(
        "deployment.failing", _("A deployment cannot serve."), deployment_payload, events.DeploymentFailing
    ),
    WebhookEventType(
        "deployment.removed",
        _("The workers of a deployment have stopped."),
        deployment_payload,
        events.DeploymentRemoved,
    ),
    WebhookEventType(
        "node.cordoned", _("No new workers are placed on a machine."), node_payload, events.NodeCordoned
    ),
    WebhookEventType(
        "node.uncordoned",
        _("New workers may be placed on a machine again."),
        node_payload,
        events.NodeUncordoned,
    ),
    WebhookEventType(
        "node.draining",
        _("The pods of a machine are about to be evicted."),
        drain_payload,
        events.NodeDraining,
    ),
    WebhookEventType(
        "node.drained",
        _("A machine is drained: no pod that had to leave remains."),
        drain_payload,
        events.NodeDrained,
    ),
    WebhookEventType(
        "node.drain_failed", _("A machine was not drained."), drain_payload, events.NodeDrainFailed
    ),
    WebhookEventType(
        "node.drain_cancelled",
        _("The drain of a machine was cancelled."),
        drain_payload,
        events.NodeDrainCancelled,
    ),
    WebhookEventType(
        "node.agent_silent",
        _("The agent of a machine stopped reporting; its workers may serve."),
        node_payload,
        events.AgentSilent,
    ),
    WebhookEventType(
        "worker.lost", _("A worker stopped sending heartbeats."), worker_payload, events.WorkerLost
    ),
    WebhookEventType(
        "worker.stuck",
        _("All slots of a worker are busy and no request finishes."),
        worker_payload,
        events.WorkerStuck,
    ),
)
CHOICES = (
    ChoiceSet(states.Alert, badges="alert", schema="WorkerAlert"),
    ChoiceSet(states.CheckResult, badges="check"),
    ChoiceSet(states.ClusterKind, schema="ClusterKind"),
    ChoiceSet(states.ClusterState, badges="cluster"),
    ChoiceSet(states.DeploymentState, badges="deployment", schema="DeploymentState"),
    ChoiceSet(states.DrainState, badges="drain"),
    ChoiceSet(states.GpuSharing),
    ChoiceSet(states.GpuState),
    ChoiceSet(states.MachineGroup),
    ChoiceSet(states.NodeOperation),
    ChoiceSet(states.NodeState, badges="node", schema="NodeState"),
    ChoiceSet(states.WorkerState, badges="worker", schema="WorkerState"),
    ChoiceSet(SERVED_ENGINES, schema="EngineEnum"),
)
MANIFEST = AppManifest(
    alert_checks=ALERT_CHECKS,
    choices=CHOICES,
    subscriptions=(Subscription(BlobRepaired, lay_out_repaired),),
    sealed=(
        SealedColumn(Cluster, "sealed_secrets", SECRETS_PURPOSE),
        SealedColumn(Deployment, "sealed_report_token", REPORT_TOKEN_PURPOSE),
    ),
    reconcilers=(
        DeploymentReconciler(),
        ClusterReconciler(),
        NodeReconciler(),
        DrainReconciler(),
        WorkerLogReconciler(),
        RememberFleet(),
    ),
    subjects=SUBJECTS,
    badges=BADGES,
    cards=(
        HomeCard(
            name="fleet",
            template="clusters/_home.html",
            read=home.FleetCard,
            column="side",
            rank=10,
            topic="fleet",
        ),
    ),
    inbox=(InboxSource(find=inbox.silent_relays, topic="fleet"),),
    nav=(NavItem(name=_("Fleet"), path="/fleet/", icon="server-2", rank=50, key="f"),),
    search=(SearchSource(_("Workers"), find_workers), SearchSource(_("Deployments"), find_deployments)),
    destinations=DESTINATIONS,
    nouns={
        "clusters": lambda count: ngettext("cluster", "clusters", count),
        "deployments": lambda count: ngettext("deployment", "deployments", count),
        "machines": lambda count: ngettext("machine", "machines", count),
        "workers": lambda count: ngettext("worker", "workers", count),
    },
    topics=(FleetTopic(),),
    webhook_events=WEBHOOK_EVENTS,
    webhook_heading=_("Fleet"),
    metrics=(metrics.fleet, metrics.credentials),
    probes=(HealthProbe("clusters", clusters_health, vital=False, title=_("Clusters")),),
    hooks=(
        partial(register_uses, VERSIONS_IN_USE),
        partial(register_use_check, deployments_running),
        partial(register_pull_times, pull_times),
    ),
)
