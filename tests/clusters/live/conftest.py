from collections.abc import AsyncIterator, Iterator

import httpx2
import pytest
import pytest_asyncio
from django.utils import timezone

from accounts.services.people import create_machine
from accounts.states import Right
from clusters.models import Deployment, Worker
from clusters.states import DeploymentState, WorkerState
from tests.cast import SYSTEM
from tests.clusters.live.rig import Site, token_of_node
from tests.clusters.world import Scene, node_of


@pytest.fixture
def site(valkey) -> Iterator[Site]:
    site = Site()
    yield site
    site.stop()


@pytest.fixture
def row(db) -> Deployment:
    scene = Scene()
    node = node_of(scene.cluster, uid="box-1")
    row = scene.deployment("chat-v1", replicas=2, state=DeploymentState.READY, next_at=None)
    for ordinal in range(2):
        Worker.objects.create(
            deployment=row,
            node=node,
            name=f"chat-v1-{ordinal}",
            uid=f"chat-v1-{ordinal}",
            pid=100 + ordinal,
            address="127.0.0.1",
            port=20_000 + ordinal,
            state=WorkerState.READY,
            state_since=timezone.now(),
        )
    return row


@pytest_asyncio.fixture
async def client(site: Site) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=f"http://{site.address}/api/v1/") as client:
        yield client


@pytest.fixture
def agent(row: Deployment) -> str:
    """The token of the machine on which the workers are."""
    robot = create_machine(actor=SYSTEM, username="node-agents")
    return token_of_node(robot, row.cluster, scopes=[Right.FLEET_REPORT])
