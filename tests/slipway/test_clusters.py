"""`slipway cluster` and the agents of `slipway node`."""

import pytest
from django.utils import timezone

from accounts.models import ApiToken
from accounts.services.tokens import use_token
from clusters.models import Cluster, Node, NodeAgent
from common.models import AuditRecord
from common.reconcile.pulses import Sign, Work, give
from tests.cast import person, token_of
from tests.slipway.conftest import Terminal


@pytest.fixture
def root(terminal: Terminal) -> Terminal:
    terminal.token = token_of(person("root", superuser=True))
    return terminal


@pytest.fixture
def local(terminal: Terminal) -> Cluster:
    row = Cluster.objects.create(name="local", kind="embedded", host="prague")
    Node.objects.create(cluster=row, uid="box-1", name="box-1", seen_at=timezone.now())
    return row


def test_a_cluster_is_given_to_a_host_that_lives(root: Terminal, local: Cluster) -> None:
    move = ("cluster", "move", "local", "--to", "brno", "--reason", "It burnt down.", "--yes")
    refused = root(*move)
    assert refused.status != 0
    assert "No worker or sweeper of brno" in refused.err
    give(Sign("worker", "brno", 1, "box-brno"), at=timezone.now(), work=Work())
    assert root(*move).status == 0
    assert "brno" in root("cluster", "list").out
    assert AuditRecord.objects.get(action="cluster.move").reason == "It burnt down."


def test_the_agent_of_a_machine_gets_a_token_and_loses_it(root: Terminal, local: Cluster) -> None:
    made = root("node", "agent-token", "box-1", "--expires-in-days", "30")
    assert made.status == 0, made.err
    token = use_token(made.out.strip().splitlines()[-1])
    assert NodeAgent.objects.get().token == token
    gone = root("node", "remove-agent", "box-1", "--reason", "Its workers report by themselves.")
    assert gone.status == 0, gone.err
    assert not NodeAgent.objects.exists()
    assert ApiToken.objects.get(pk=token.pk).revoked_at is not None
