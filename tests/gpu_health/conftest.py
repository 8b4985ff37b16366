"""A machine of a team whose agent reports, and people who look at it."""

from dataclasses import dataclass
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from accounts.models import ApiToken, Team, User
from accounts.states import Right, Role
from clusters.models import AgentToken, Cluster, Node
from gpu_health.services.readings import accept_readings
from tests import cast


@dataclass
class Machine:
    team: Team
    node: Node
    token: str

    def entry(self, fault: str, origin: str, *, seconds_ago: float = 0.0, **more: Any) -> dict[str, Any]:
        at = timezone.now().timestamp() - seconds_ago
        given = {"source": "kernel_log", "fault": fault, "at": at, "clock": "epoch", "origin": origin}
        return given | {"gpu_bus_id": "0000:9b:00", "raw": f"line {origin}"} | more

    def sees(self, *entries: dict[str, Any]) -> Any:
        return accept_readings(cluster_id=self.node.cluster_id, node_uid=self.node.uid, entries=list(entries))

    def report(self, *entries: dict[str, Any]) -> Any:
        return Client().post(
            "/api/v1/gpu-health/readings/",
            {"readings": list(entries)},
            content_type="application/json",
            headers={"Authorization": f"Bearer {self.token}"},
        )


@pytest.fixture
def machine(db: None) -> Machine:
    team = cast.team("serving")
    agent = cast.person("box-agent", serving=Role.OPERATOR)
    cluster = Cluster.objects.create(name="gpus", kind="embedded", team=team)
    node = Node.objects.create(cluster=cluster, uid="box-1", name="box-1", seen_at=timezone.now())
    token = cast.token_of(agent, scopes=[Right.FLEET_REPORT])
    row = ApiToken.objects.latest("pk")
    AgentToken.objects.create(cluster=cluster, node_uid="box-1", token=row)
    return Machine(team, node, token)


@pytest.fixture
def operator(machine: Machine) -> User:
    return cast.person("olga", serving=Role.OPERATOR)
