"""What narrows the lists of machines and deployments: over REST and on the pages."""

from typing import ClassVar

from django.utils.translation import gettext_lazy as _

from clusters.states import ClusterKind, DeploymentState, Group, NodeState
from common import filters
from common.filters import ListFilter


class NodeFilter(ListFilter):
    rest_only: ClassVar = ("name",)
    q = filters.search("Words that must occur in name or address.", _("Name, address"), ("name", "address"))
    name = filters.text(_("Name"), "Name.", "name")
    state = filters.choice(_("State"), "State.", NodeState.choices, "state")
    group = filters.choice(_("Group"), "Group.", Group.choices, "group")
    cordoned = filters.truth(_("Cordoned"), "Only cordoned machines, or only others.", "is_cordoned")


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
