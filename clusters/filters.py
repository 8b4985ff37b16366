"""Filters of machines and deployments, over REST and on the pages."""

from typing import Any, ClassVar

import django_filters
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils.translation import gettext_lazy as _

from accounts.actors import of_request
from clusters.machine_facts import ZONE_LABEL
from clusters.models import Cluster, Gpu
from clusters.states import ClusterKind, DeploymentState, DrainState, GpuState, MachineGroup, NodeState
from common import filters
from common.filters import ListFilter


def _visible_clusters(request: Any) -> QuerySet[Cluster]:
    rows = Cluster.objects.present().order_by("name")
    return rows.for_actor(of_request(request)) if request else rows.none()


def cluster(by: str) -> django_filters.ModelChoiceFilter:
    """Return a filter by the clusters that the actor may see."""
    unknown = _("There is no such cluster, or you may not see it.")
    return filters.named(_("Cluster"), "Cluster.", _visible_clusters, by, unknown=unknown)


def _with_gpu(text: str) -> Q:
    cards = Gpu.objects.exclude(state=GpuState.GONE).filter(node=OuterRef("pk"), name__icontains=text)
    return Q(Exists(cards))


def _in_zone(text: str) -> Q:
    return Q(**{f"labels__{ZONE_LABEL}": text})


class NodeFilter(ListFilter):
    rest_only: ClassVar = ("name",)
    q = filters.search("Words that must occur in name or address.", _("Name, address"), ("name", "address"))
    name = filters.text(_("Name"), "Name.", "name")
    state = filters.choice(_("State"), "State.", NodeState.choices, "state")
    group = filters.choice(_("Group"), "Group.", MachineGroup.choices, "group")
    cordoned = filters.truth(_("Cordoned"), "Only cordoned machines, or only others.", "is_cordoned")


class MachineFilter(NodeFilter):
    """Filter of a page that lists machines of all clusters."""

    further: ClassVar = ("group", "cordoned", "gpu", "zone")
    cluster = cluster("cluster")
    gpu = filters.text(_("GPU type"), "Words of the GPU's name, in any case.", _with_gpu, "H100")
    zone = filters.text(_("Zone"), "Name of the zone.", _in_zone)


class DrainFilter(ListFilter):
    node = filters.text(_("Machine"), "Name of the machine.", "node__name")
    state = filters.choice(_("State"), "State.", DrainState.choices, "state")


class DeploymentFilter(ListFilter):
    further: ClassVar = ("service", "cluster")
    q = filters.search(
        "Words that must occur in name, service or version.",
        _("Name, service, version"),
        ("name", "service", "version_label"),
    )
    state = filters.choice(_("State"), "State.", DeploymentState.choices, "state")
    service = filters.text(_("Service"), "Name of the service.", "service")
    cluster = filters.text(_("Cluster"), "Name of the cluster.", "cluster__name")


class ClusterFilter(ListFilter):
    q = filters.search("Words that must occur in the name.", _("Name"), ("name",))
    kind = filters.choice(_("Kind"), "Kind.", ClusterKind.choices, "kind")
    region = filters.text(_("Region"), "Region.", "region")
    provider = filters.text(_("Provider"), "Provider.", "provider")
