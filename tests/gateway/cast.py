"""Clusters, and the gateways that they have."""

from dataclasses import replace

from clusters.models import Cluster
from common.actor import Actor
from common.fence import Fence
from gateway import selectors
from gateway.backends import configured
from gateway.backends.fake import FakeGateway
from gateway.models import Gateway, Route
from gateway.routes import RouteSpec
from gateway.services import gateways, routes


def cluster(name: str = "local") -> Cluster:
    """Return a cluster with the usual gateway of its kind."""
    row, _ = Cluster.objects.get_or_create(name=name, defaults={"kind": "embedded"})
    gateways.ensure_gateway(row, actor=Actor.system("test"))
    return row


def gateway_of(name: str = "local") -> Gateway:
    return Gateway.objects.select_related("cluster").get(cluster=cluster(name))


def fake_gateway(name: str = "local") -> FakeGateway:
    """A fresh one, from now on that of the cluster."""
    configured.forget()
    fake = configured.traffic_backend_of(cluster(name))
    assert isinstance(fake, FakeGateway)
    return fake


def use_gateway(fake: FakeGateway, name: str = "local") -> None:
    backends = configured.look_at(gateway_of(name))
    made = replace(backends, traffic=fake, metrics=fake, access=fake, clients=fake)
    row = gateway_of(name)
    configured._made[row.pk] = (configured.revisions_of(row), made)


def set_route(spec: RouteSpec, *, fence: Fence, actor: Actor, reason: str = "", at: str = "local") -> Route:
    """`at`: the cluster whose gateway it is."""
    return routes.set_route(spec, cluster=cluster(at), fence=fence, actor=actor, reason=reason)


def reweigh(percent: int, *, fence: Fence, actor: Actor, reason: str = "") -> Route:
    """Another share for the candidate of `chat`, and all else as it is."""
    spec = replace(selectors.route("chat").spec, candidate_percent=percent)
    return set_route(spec, fence=fence, actor=actor, reason=reason)
