"""A service whose number of workers is left to an autoscaler: releases go by what that decided."""

from typing import Any

import pytest

from accounts.states import Role
from clusters.models import Deployment
from kube.client import KubeClient
from kube.fake.transport import FakeTransport
from kube.resources import DEPLOYMENTS, Ref
from releases.models import Service
from releases.services.plan import save_plan
from releases.states import ReleaseState
from tests.cast import SYSTEM, client_of, person
from tests.releases.kubernetes.world import NAMESPACE, PLAN, a_scene

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]
STEPS = [{"kind": "deploy", "share_percent": 100, "ready_within_seconds": 900}, {"kind": "promote"}]


def test_a_candidate_begins_with_as_many_workers_as_the_stable_version_has_by_now(settings: Any) -> None:
    settings.SLIPWAY_CLUSTER_BACKENDS = {"kubernetes": "tests.releases.kubernetes.world"}
    with a_scene() as scene:
        save_plan(actor=SYSTEM, team=scene.team, name="brief", body=PLAN | {"steps": STEPS}, reason="Short.")
        Service.objects.filter(pk=scene.service.pk).update(pod={"replicas": "external"})
        scene.service.refresh_from_db()
        scene.start()
        scene.run_until(lambda: scene.state() == ReleaseState.PROMOTED)
        stable = scene.candidate
        client = KubeClient(FakeTransport(scene.server), field_manager="kube-controller-manager")
        ref = Ref(DEPLOYMENTS, stable, NAMESPACE)
        client.patch(ref, {"spec": {"replicas": 4}}, subresource="scale")
        scene.run_until(lambda: Deployment.objects.get(name=stable).wanted_replicas == 4, seconds=60)

        browser = client_of(person("vito", speech=Role.VIEWER))
        assert "kube-controller-manager" in browser.get(f"/fleet/deployments/{stable}/").content.decode()
        document = browser.get(f"/api/v1/deployments/{stable}/").json()
        assert (document["observed_replicas"], document["replicas_by"]) == (4, "kube-controller-manager")

        scene.service.refresh_from_db()
        scene.start(scene.v1)
        scene.run_until(lambda: scene.state() == ReleaseState.PROMOTED)
        assert Deployment.objects.get(name=scene.candidate).wanted_replicas == 4
