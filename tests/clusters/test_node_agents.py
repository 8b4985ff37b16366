"""People make the token of a machine's agent, and take it away."""

import re

import pytest
from django.test import Client
from django.utils import timezone

from accounts.actors import grants_of, of_token
from accounts.models import ApiToken
from accounts.services.tokens import use_token
from accounts.states import Right
from clusters.api import fast_ingest
from clusters.models import AgentToken
from common.models import AuditRecord
from tests.cast import api, client_of, person, team
from tests.clusters.test_nodes import Machines

pytestmark = pytest.mark.django_db


@pytest.fixture
def scene() -> Machines:
    return Machines()


def report(scene: Machines, secret: str, *, node: str = "", sequence: int = 1) -> int:
    fast_ingest._known.clear()
    document = {"node": node or scene.node.uid, "session": "a-session", "sequence": sequence,
                "workers": [], "devices": []}  # fmt: skip
    headers = {"Authorization": f"Bearer {secret}"}
    answer = Client().post(
        "/api/v1/node-reports/", document, content_type="application/json", headers=headers
    )
    return answer.status_code


def test_the_page_shows_a_token_once_that_reports_this_machine_alone(scene: Machines) -> None:
    browser = client_of(person("ada", vision="operator"))
    page = f"/fleet/nodes/{scene.node.pk}/"
    assert "Create token" in browser.get(page).content.decode()

    answer = browser.post(f"{page}+agent-token/", {"days": 30, "reason": "A new machine"})
    assert (answer.status_code, answer["Cache-Control"]) == (201, "no-store")
    found = re.search(r"slp_\w+", answer.content.decode())
    assert found is not None
    secret = found[0]
    assert (report(scene, secret), report(scene, secret, node="another")) == (200, 403)
    token = use_token(secret)
    assert (token.team, token.scopes) == (scene.cluster.team, ["fleet.report"])
    entry = AuditRecord.objects.get(action="token.create")
    assert (entry.actor, entry.reason) == ("ada", "A new machine")
    shown = browser.get(page).content.decode()
    assert f"slp_{token.prefix}_" in shown
    assert secret not in shown


def test_a_new_token_ends_the_one_before(scene: Machines) -> None:
    operator = api(person("ada", vision="operator"))
    first, second = (
        operator.post(f"{scene.path}agent-token/", {"days": 30}).json()["token"] for _ in range(2)
    )
    assert (report(scene, first), report(scene, second)) == (401, 200)


def test_an_agent_whose_token_was_revoked_is_shown_until_it_is_removed(scene: Machines) -> None:
    operator = person("ada", vision="operator")
    api(operator).post(f"{scene.path}agent-token/", {"days": 30})
    ApiToken.objects.filter(owner__username="node-agents").update(revoked_at=timezone.now())
    shown = client_of(operator).get(f"/fleet/nodes/{scene.node.pk}/").content.decode()
    assert "Revoked" in shown
    assert "+remove-agent/" in shown


def test_an_agent_that_is_removed_is_missed_by_nobody(scene: Machines) -> None:
    browser = client_of(person("ada", vision="operator"))
    secret = api(person("ben", vision="operator")).post(f"{scene.path}agent-token/", {}).json()["token"]
    answer = browser.post(
        f"/fleet/nodes/{scene.node.pk}/+remove-agent/", {"reason": "Its workers report by themselves."}
    )
    assert answer.status_code == 302
    assert report(scene, secret) == 401
    assert not AgentToken.objects.exists()
    assert AuditRecord.objects.get(action="node.remove_agent").actor == "ada"


@pytest.mark.parametrize("role", ["viewer", "approver"])
def test_who_does_not_operate_the_fleet_makes_no_token(scene: Machines, role: str) -> None:
    browser = client_of(person("eve", vision=role))
    page = f"/fleet/nodes/{scene.node.pk}/"
    assert "+agent-token" not in browser.get(page).content.decode()
    assert browser.post(f"{page}+agent-token/", {"days": 30}).status_code in (403, 422)
    assert not ApiToken.objects.filter(revoked_at=None).exists()


def test_a_token_of_one_teams_machine_reports_no_worker_of_another_team(scene: Machines) -> None:
    secret = api(person("ada", vision="operator")).post(f"{scene.path}agent-token/", {}).json()["token"]
    grants = grants_of(of_token(use_token(secret)))
    teams = (scene.team, team("speech"))
    assert [grants.may(Right.FLEET_REPORT, one.pk) for one in teams] == [True, False]
