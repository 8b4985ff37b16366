"""Workers in pods report with a token of their deployment, which is renewed, and ends with it."""

from datetime import timedelta

import pytest

from accounts.models import ApiToken
from accounts.services.tokens import revoke_of_part
from clusters import selectors
from clusters.backends.base import DeploymentSpec
from clusters.models import Cluster, Deployment, ReportToken, Worker
from clusters.report_tokens import report_token_of
from clusters.services.deployments import remove_deployment
from clusters.services.report_tokens import issue_report_token
from clusters.states import Alert, ClusterKind, DeploymentState
from common.fence import Fence
from tests.cast import SYSTEM
from tests.clusters.world import Scene

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Return the scene of a cluster whose workers are pods that reach Slipway."""
    scene = Scene()
    scene.cluster.kind, scene.cluster.settings = ClusterKind.KUBERNETES, {"report_url": "https://slipway"}
    scene.cluster.save()
    return scene


def told(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tokens that the cluster is told, as they come."""
    found: list[str] = []
    apply = scene.world.apply

    def remember(spec: DeploymentSpec, *, fence: Fence) -> None:
        found.append(spec.report_token)
        apply(spec, fence=fence)

    monkeypatch.setattr(scene.world, "apply", remember)
    return found


def test_a_deployment_is_given_its_token_before_its_first_worker_starts(scene, monkeypatch) -> None:
    tokens = told(scene, monkeypatch)
    row = scene.deployment()
    scene.pass_(3)
    row.refresh_from_db()
    assert set(tokens) == {report_token_of(row)} != {""}
    assert row.state == DeploymentState.READY
    assert report_token_of(row) not in row.sealed_report_token


def test_it_is_renewed_before_it_ends_and_the_one_before_goes_on_for_pods_that_have_it(
    scene, monkeypatch
) -> None:
    tokens = told(scene, monkeypatch)
    scene.deployment()
    scene.pass_(3)
    first = tokens[-1]
    for tokens_by_then in (2, 3):
        ApiToken.objects.update(expires_at=scene.clock() + timedelta(days=14))
        scene.pass_(6)
        assert len(set(tokens)) == tokens_by_then
    assert tokens[-1] != first
    assert ApiToken.objects.filter(revoked_at=None).count() == 2  # the first of three is over


def test_one_that_has_leaked_is_replaced_as_soon_as_it_is_revoked(scene, monkeypatch) -> None:
    tokens = told(scene, monkeypatch)
    scene.deployment()
    scene.pass_(3)
    leaked = ReportToken.objects.get().token
    revoke_of_part(actor=SYSTEM, token=leaked, reason="It stood in a log.")
    before = tokens[-1]
    scene.pass_(6)
    assert tokens[-1] != before


def test_it_ends_with_its_deployment(scene) -> None:
    row = scene.deployment()
    scene.pass_(3)
    remove_deployment(actor=SYSTEM, name=row.name, reason="over")
    scene.pass_(6)
    row.refresh_from_db()
    assert (row.state, row.sealed_report_token) == (DeploymentState.REMOVED, "")
    assert not ApiToken.objects.filter(revoked_at=None).exists()


def test_where_an_agent_reports_or_nobody_can_there_is_none(scene) -> None:
    Cluster.objects.update(settings={})
    scene.deployment()
    scene.pass_(3)
    assert not ReportToken.objects.exists()


def test_a_worker_that_cannot_report_is_not_called_lost(scene, valkey) -> None:
    Cluster.objects.update(settings={})
    row = scene.deployment()
    scene.heartbeats = {}
    scene.pass_(30)
    assert set(Worker.objects.values_list("alert", flat=True)) == {Alert.NONE}
    Deployment.objects.update(observed_at=scene.clock())
    assert {one.alert for one in selectors.deployments_now([row.name])[row.name].workers} == {Alert.NONE}
    Cluster.objects.update(settings={"report_url": "https://slipway"})
    scene.pass_(30)
    assert set(Worker.objects.values_list("alert", flat=True)) == {Alert.LOST}


def test_where_it_has_leaked_the_last_one_is_not_kept(scene) -> None:
    row = scene.deployment()
    first = issue_report_token(actor=SYSTEM, deployment=row)
    issue_report_token(actor=SYSTEM, deployment=row, keep_last=False, reason="It stood in a log.")
    first.token.refresh_from_db()
    assert first.token.revoked_at is not None
