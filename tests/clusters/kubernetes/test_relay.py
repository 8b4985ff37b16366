"""A cluster that is to have a relay has one, with its token; what others made under its name stays."""

import base64
from dataclasses import replace

import pytest

from clusters.backends.base import Misconfigured
from clusters.backends.kubernetes.backend import KubernetesCluster
from clusters.backends.kubernetes.settings import KubernetesSettings
from kube.errors import NotFound
from kube.resources import DEPLOYMENTS, SECRETS, SERVICES, Ref
from tests.clusters.kubernetes.test_backend import World

IMAGE = f"registry.example/worker@sha256:{'0' * 64}"
SETTINGS = KubernetesSettings(report_url="https://slipway.example", relay_image=IMAGE)
PARTS = [Ref(kind, "slipway-relay", "slipway") for kind in (SECRETS, SERVICES, DEPLOYMENTS)]


def set_up(world: World, settings: KubernetesSettings = SETTINGS, token: str = "first") -> None:
    KubernetesCluster(world.client, settings, relay_token=token).hand_out_secrets()


def test_it_is_made_with_its_token_and_workers_are_told_where_it_is() -> None:
    world = World()
    for token in ("first", "second"):
        set_up(world, token=token)
        secret = world.client.get(PARTS[0])
        assert base64.b64decode(secret["data"]["token"]).decode() == token
    container = world.client.get(PARTS[2])["spec"]["template"]["spec"]["containers"][0]
    assert "--url=https://slipway.example" in container["command"]
    assert SETTINGS.reports_to == "http://slipway-relay.slipway.svc:8080"


def test_without_an_image_it_goes_again() -> None:
    world = World()
    set_up(world)
    set_up(world, replace(SETTINGS, relay_image=""), token="")
    for part in PARTS:
        with pytest.raises(NotFound):
            world.client.get(part)


def test_what_others_made_under_its_name_stays() -> None:
    world = World()
    theirs = {"name": "slipway-relay", "namespace": "slipway"}
    world.client.create(
        {"apiVersion": "v1", "kind": "Secret", "metadata": theirs, "data": {"token": "dGhlaXJz"}}
    )
    set_up(world)
    set_up(world, replace(SETTINGS, relay_image=""), token="")
    assert world.client.get(PARTS[0])["data"] == {"token": "dGhlaXJz"}


@pytest.mark.parametrize(
    ("settings", "word"),
    [({"relay_image": "worker:1"}, "by digest"), ({"relay_image": IMAGE}, "say in report_url")],
)
def test_a_relay_that_could_not_work_is_refused(settings, word) -> None:
    with pytest.raises(Misconfigured, match=word):
        KubernetesSettings.read(settings)
