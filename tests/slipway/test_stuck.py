"""`slipway stuck`: what waits for a person, and what that person says."""

import pytest
from django.utils import timezone

from accounts.states import Role
from common.models import Intent
from hubs.models import HubSource
from tests.accounts.rights_matrix import Scene
from tests.cast import token_of
from tests.slipway.conftest import Terminal

pytestmark = pytest.mark.django_db
KIND = "hubs.hubsource"


@pytest.fixture
def source(terminal: Terminal) -> HubSource:
    scene = Scene.of_role(Role.ADMIN)
    terminal.token = token_of(scene.user)
    now = timezone.now()
    HubSource.objects.filter(pk=scene.hub_source.pk).update(
        stuck_at=now, failed_since=now, last_error="The clock is gone."
    )
    return scene.hub_source


def test_what_is_stuck_is_listed_and_retried(terminal: Terminal, source: HubSource) -> None:
    listed = terminal("stuck", "list")
    assert KIND in listed.out
    assert "The clock is gone." in listed.out
    refused = terminal("stuck", "retry", KIND, source.pk)
    assert (refused.status, "--reason" in refused.err) == (2, True)
    said = terminal("stuck", "retry", KIND, source.pk, "--reason", "It is back.")
    assert (said.status, said.out.strip()) == (0, f"{KIND} {source.pk} goes on.")
    again = terminal("stuck", "retry", KIND, source.pk, "--reason", "Once more.")
    assert again.status != 0
    assert "not stuck" in again.err


def test_a_doubt_is_listed_and_answered(terminal: Terminal, source: HubSource) -> None:
    Intent.objects.create(
        op_key="order 7",
        kind=KIND,
        object_id=str(source.pk),
        step="order",
        wanted={"nodes": 4},
        state=Intent.State.UNKNOWN,
        fence=1,
        intended_at=timezone.now(),
    )
    listed = terminal("stuck", "list")
    assert f"Did it happen? {KIND} {source.pk} 'order 7': order nodes 4" in listed.out
    unsaid = terminal("stuck", "answer", KIND, source.pk, "order 7", "-r", "I looked.")
    assert (unsaid.status, "--did-not-happen" in unsaid.err) == (2, True)
    said = terminal("stuck", "answer", KIND, source.pk, "order 7", "--did-not-happen", "-r", "I looked.")
    assert (said.status, said.out.strip()) == (0, f"{KIND} {source.pk} goes on.")
    assert not Intent.objects.filter(op_key="order 7").exists()
