"""Wishes about clusters and deployments: who may have them, and what happens when they come twice."""

import stat
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command

from accounts.actors import of_token, of_user
from accounts.models import ApiToken, User
from accounts.selectors import may
from accounts.services.tokens import use_token
from accounts.states import Right
from clusters import selectors
from clusters.errors import (
    DeploymentGone,
    DeploymentMissing,
    FleetNameTaken,
    InvalidCluster,
    InvalidDeployment,
    StaleScale,
)
from clusters.models import Cluster, Deployment, Node
from clusters.services.clusters import change_cluster, register_cluster
from clusters.services.deployments import ensure_deployment, remove_deployment, scale_deployment
from clusters.services.nodes import cordon_node
from clusters.states import DeploymentState
from common.actor import Actor
from common.errors import Missing, NotAllowed
from common.models import AuditRecord
from models_registry.references import uses
from tests.cast import SYSTEM, person, team, token_of
from tests.clusters.world import Scene, node_of, version_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def scene() -> Scene:
    return Scene()


def ensure(scene: Scene, *, actor: Actor = SYSTEM, **fields: Any) -> Deployment:
    given: dict[str, Any] = {
        "name": "chat-v1",
        "op_key": "release:1:3:deploy",
        "cluster": scene.cluster,
        "team": scene.team,
        "service": "chat",
        "version": scene.version,
        "replicas": 2,
        "slots": 4,
        "engine": "echo",
    }
    return ensure_deployment(actor=actor, **given | fields)


def test_the_same_operation_makes_one_deployment_however_often_it_asks(scene) -> None:
    first = ensure(scene)
    assert ensure(scene) == first
    assert first.next_at is not None
    assert AuditRecord.objects.filter(action="deployment.create").count() == 1


def test_another_operation_cannot_take_the_name(scene) -> None:
    ensure(scene)
    with pytest.raises(FleetNameTaken, match="test made it"):
        ensure(scene, op_key="release:2:1:deploy")


def test_a_name_is_never_used_again(scene) -> None:
    ensure(scene)
    remove_deployment(actor=SYSTEM, name="chat-v1", reason="old")
    with pytest.raises(DeploymentGone):
        ensure(scene)


ORDERS = {
    "ensure": lambda scene, actor: ensure(scene, actor=actor, name="chat-v2", op_key="op-2"),
    "scale": lambda scene, actor: scale_deployment(actor=actor, name="chat-v1", replicas=3),
    "remove": lambda scene, actor: remove_deployment(actor=actor, name="chat-v1", reason="old"),
    "cordon": lambda scene, actor: cordon_node(
        actor=actor, node=Node.objects.select_related("cluster__team").get(), reason="GPU 0"
    ),
    "change cluster": lambda scene, actor: change_cluster(
        actor=actor, cluster=Cluster.objects.select_related("team").get(), region="eu"
    ),
}


@pytest.mark.parametrize("order", ORDERS)
def test_an_order_takes_the_right_to_operate_the_fleet_of_its_team_and_no_other(scene, order) -> None:
    """Whoever has every other right is refused, whoever has this one alone is not."""
    Cluster.objects.update(team=scene.team)
    scene.cluster.refresh_from_db()
    node_of(scene.cluster)
    ensure(scene)
    admin, foreigner = person("ada", vision="admin"), person("eve", speech="admin")
    refused = [
        token_of(admin, scopes=set(Right) - {Right.FLEET_OPERATE}),
        token_of(foreigner),
        token_of(person("vi", vision="viewer")),
    ]
    for token in refused:
        with pytest.raises(NotAllowed):
            ORDERS[order](scene, of_token(use_token(token)))
    ORDERS[order](scene, of_token(use_token(token_of(admin, scopes=[Right.FLEET_OPERATE]))))


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "Chat"},
        {"name": "chat_v1"},
        {"name": "x" * 64},
        {"name": ""},
        {"service": "a b"},
        {"slots": 0},
        {"replicas": -1},
        {"replicas": 257},
        {"engine": ""},
    ],
)
def test_what_no_cluster_could_run_is_refused(scene, fields) -> None:
    with pytest.raises(ValidationError):
        ensure(scene, **fields)
    assert not Deployment.objects.exists()


def test_a_team_cannot_use_the_cluster_of_another(scene) -> None:
    theirs = Cluster.objects.create(name="theirs", kind="embedded", team=team("speech"))
    with pytest.raises(Missing):
        ensure(scene, cluster=theirs)


def test_who_may_operate_the_fleet_deploys_and_others_do_not(scene) -> None:
    ensure(scene, actor=of_user(person("op", vision="operator")))
    for number, role in enumerate(("viewer", "developer", "approver")):
        with pytest.raises(NotAllowed):
            ensure(scene, actor=of_user(person(role, vision=role)), name=f"chat-x{number}")


def test_a_removal_stops_the_endpoints_at_once_and_twice_is_once(scene) -> None:
    ensure(scene)
    remove_deployment(actor=SYSTEM, name="chat-v1", reason="replaced by v2")
    remove_deployment(actor=SYSTEM, name="chat-v1", reason="again")
    row = selectors.deployment("chat-v1")
    assert (row.state, row.reason) == (DeploymentState.REMOVING, "replaced by v2")
    assert selectors.endpoints("chat-v1").addresses == ()
    assert AuditRecord.objects.filter(action="deployment.remove").count() == 1


def test_scaling_is_a_wish_that_is_noted_once(scene) -> None:
    ensure(scene)
    scale_deployment(actor=SYSTEM, name="chat-v1", replicas=3)
    again = scale_deployment(actor=SYSTEM, name="chat-v1", replicas=3)
    assert (again.replicas, again.generation) == (3, 2)
    assert AuditRecord.objects.filter(action="deployment.scale").count() == 1


def test_whoever_wakes_up_late_does_not_scale_back(scene) -> None:
    ensure(scene)
    scale_deployment(actor=SYSTEM, name="chat-v1", replicas=1, fence=4)
    scale_deployment(actor=SYSTEM, name="chat-v1", replicas=3, fence=9)
    with pytest.raises(StaleScale):
        scale_deployment(actor=SYSTEM, name="chat-v1", replicas=1, fence=4)
    scale_deployment(actor=SYSTEM, name="chat-v1", replicas=3, fence=9)
    assert selectors.deployment("chat-v1").replicas == 3


def test_what_cannot_be_scaled_says_why(scene) -> None:
    ensure(scene)
    with pytest.raises(InvalidDeployment):
        scale_deployment(actor=SYSTEM, name="chat-v1", replicas=1000)
    remove_deployment(actor=SYSTEM, name="chat-v1", reason="")
    with pytest.raises(DeploymentGone):
        scale_deployment(actor=SYSTEM, name="chat-v1", replicas=1)
    with pytest.raises(DeploymentMissing):
        scale_deployment(actor=SYSTEM, name="nobody", replicas=1)


def test_a_version_that_is_deployed_is_in_use_until_the_deployment_is_removed(scene) -> None:
    row = ensure(scene)
    assert uses([scene.version.pk])[scene.version.pk] == ["deployment chat-v1 of service chat"]
    Deployment.objects.filter(pk=row.pk).update(state=DeploymentState.REMOVED)
    assert not uses([scene.version.pk])


def test_deployments_of_a_service_leave_out_the_removed_ones(scene) -> None:
    ensure(scene)
    ensure(scene, name="chat-v2", op_key="b", version=version_of(scene.team, "story:v2"))
    ensure(scene, name="other", op_key="c", service="other")
    Deployment.objects.filter(name="chat-v1").update(state=DeploymentState.REMOVED)
    assert [row.name for row in selectors.deployments_of("chat")] == ["chat-v2"]


def test_the_same_cluster_is_registered_once_and_another_refused() -> None:
    for _ in range(2):
        register_cluster(actor=SYSTEM, name="prod", kind="embedded")
    assert AuditRecord.objects.filter(action="cluster.register").count() == 1
    with pytest.raises(FleetNameTaken):
        register_cluster(actor=SYSTEM, name="prod", kind="embedded", team=team("vision"))
    with pytest.raises(ValidationError):
        register_cluster(actor=SYSTEM, name="other", kind="mainframe")
    with pytest.raises(InvalidCluster, match="cannot run clusters of the kind kubernetes"):
        register_cluster(actor=SYSTEM, name="other", kind="kubernetes")


def test_a_shared_cluster_takes_an_administrator_and_ones_own_an_operator() -> None:
    operator = of_user(person("op", vision="operator"))
    with pytest.raises(NotAllowed):
        register_cluster(actor=operator, name="prod", kind="embedded")
    register_cluster(actor=operator, name="ours", kind="embedded", team=team("vision"))


@pytest.fixture
def token_file(settings, tmp_path) -> Path:
    settings.SLIPWAY_NODE_TOKEN_FILE = tmp_path / "run" / "node-token"
    return settings.SLIPWAY_NODE_TOKEN_FILE


def test_the_first_start_registers_this_machine_and_gives_its_agent_a_token(token_file) -> None:
    call_command("ensure_embedded_cluster")
    assert Cluster.objects.get(name="local").kind == "embedded"
    assert stat.S_IMODE(token_file.stat().st_mode) == 0o600
    actor = of_token(use_token(token_file.read_text().strip()))
    assert [right for right in Right if may(actor, right)] == [Right.FLEET_REPORT]
    assert not User.objects.get(username="node-agents").has_usable_password()


def test_another_start_changes_nothing(token_file) -> None:
    call_command("ensure_embedded_cluster")
    before = token_file.read_text()
    call_command("ensure_embedded_cluster")
    assert token_file.read_text() == before
    assert ApiToken.objects.count() == 1


def test_a_token_that_was_lost_revoked_or_runs_out_is_renewed(token_file) -> None:
    call_command("ensure_embedded_cluster")
    first = token_file.read_text()
    token_file.unlink()
    call_command("ensure_embedded_cluster")
    second = token_file.read_text()
    assert second != first
    assert ApiToken.objects.filter(revoked_at=None).count() == 1
    from datetime import timedelta

    from django.utils import timezone

    ApiToken.objects.filter(revoked_at=None).update(expires_at=timezone.now() + timedelta(days=10))
    call_command("ensure_embedded_cluster")
    assert token_file.read_text() != second


def test_a_person_with_the_robots_name_is_not_made_the_robot(token_file) -> None:
    person("node-agents", vision="viewer")
    with pytest.raises(CommandError, match="Rename that person"):
        call_command("ensure_embedded_cluster")
    assert not token_file.exists()
