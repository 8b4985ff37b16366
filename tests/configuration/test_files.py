"""Files of a team: applied whole or not at all, compared three ways, exported as they would be applied."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from accounts.models import User
from clusters.models import Cluster
from common.models import AuditRecord
from configuration.models import AppliedDocument
from freezes.models import Freeze
from releases.models import EnvironmentStage, Plan, Service, ServiceIndicator, TeamPolicy
from tests.cast import Api, api, client_of, person, team, token_of
from tests.clusters.world import version_of
from tests.slipway.conftest import Terminal

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]

PLAN = {
    "kind": "plan",
    "name": "brief",
    "spec": {"body": {"steps": [{"kind": "deploy", "replicas": 1}, {"kind": "promote"}]}},
}
SERVICE: dict[str, Any] = {
    "kind": "service",
    "name": "chat",
    "spec": {"model": "tiny", "version": "v1", "engine": "echo", "replicas": 2, "plan": "brief"},
}
FREEZE: dict[str, Any] = {
    "kind": "freeze",
    "name": "Weekends",
    "spec": {
        "stage": "production",
        "starts_at": "2026-11-27T18:00:00+01:00",
        "minutes": 3720,
        "recurrence": "FREQ=WEEKLY;BYDAY=FR",
    },
}
POLICY = {"kind": "policy", "spec": {"policy": {"plans": ["brief"]}}}
ALL = [SERVICE, FREEZE, POLICY, PLAN]


@pytest.fixture
def ada() -> Api:
    version_of(team("vision"), "tiny:v1")
    Cluster.objects.get_or_create(name="local", defaults={"kind": "embedded"})
    return api(person("ada", vision="admin"))


def applied(who: Api, documents: list[dict[str, Any]], **how: Any) -> dict[str, str]:
    answer = who.post("configuration/apply/", {"team": "vision", "documents": documents, **how})
    assert answer.status_code == 200, answer.content
    return {row["kind"]: row["action"] for row in answer.json()["results"]}


def changed(document: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {**document, "spec": {**document["spec"], **spec}}


def test_files_make_what_they_name_in_an_order_that_works_and_the_second_time_nothing(ada: Api) -> None:
    assert applied(ada, ALL) == dict.fromkeys(("freeze", "plan", "policy", "service"), "created")
    service = Service.objects.get(name="chat")
    assert (service.replicas, service.plan_name, service.team.name) == (2, "brief", "vision")
    assert Freeze.objects.get().minutes == 3720
    records = AuditRecord.objects.count()

    assert set(applied(ada, ALL).values()) == {"unchanged"}
    assert AuditRecord.objects.count() == records


def test_a_misspelt_member_of_a_document_is_refused(ada: Api) -> None:
    """`Team` left out unseen would give the object to the team of the set."""
    answer = ada.post("configuration/apply/", {"team": "vision", "documents": [{**FREEZE, "Team": "speech"}]})

    assert answer.json()["errors"] == {
        "documents.0.Team": ["There is no such field. Known: kind, name, spec, team."]
    }
    assert not Freeze.objects.exists()


def test_a_dry_run_answers_the_changes_and_makes_none(ada: Api) -> None:
    applied(ada, ALL)
    wanted = [changed(SERVICE, replicas=3), FREEZE, POLICY]

    answer = ada.post("configuration/apply/", {"team": "vision", "documents": wanted, "dry_run": True}).json()

    rows = {row["kind"]: row for row in answer["results"]}
    assert rows["service"]["changes"] == [{"field": "replicas", "before": 2, "after": 3}]
    assert rows["plan"]["action"] == "left"
    assert Service.objects.get().replicas == 2
    assert AppliedDocument.objects.get(kind="service").document["replicas"] == 2


def test_one_document_that_is_refused_keeps_all_from_being_applied(ada: Api) -> None:
    wanted = [PLAN, changed(FREEZE, zone="Mars/Olympus"), changed(SERVICE, replicas=0, colour="red")]

    answer = ada.post("configuration/apply/", {"team": "vision", "documents": wanted})

    assert answer.status_code == 400
    assert set(answer.json()["errors"]) == {"documents.1.zone", "documents.2.replicas", "documents.2.colour"}
    assert not Plan.objects.exists()
    assert not AppliedDocument.objects.exists()


def test_what_people_changed_since_is_shown_and_undone_only_when_asked(ada: Api) -> None:
    applied(ada, ALL)
    assert ada.patch("services/chat/", {"replicas": 6, "description": "By hand."}).status_code == 200

    refused = ada.post("configuration/apply/", {"team": "vision", "documents": ALL})
    assert (refused.status_code, *refused.json()["errors"]) == (400, "documents.0.spec.replicas")
    pk = AppliedDocument.objects.get(kind="service").pk
    drift = [{"field": "replicas", "before": 2, "after": 6}]
    assert ada.get(f"configuration/{pk}/").json()["drift"] == drift
    dry = ada.post("configuration/apply/", {"team": "vision", "documents": ALL, "dry_run": True}).json()
    assert [row["drift"] for row in dry["results"] if row["kind"] == "service"] == [drift]

    taken_over = [changed(SERVICE, replicas=6), FREEZE, POLICY, PLAN]
    assert applied(ada, taken_over)["service"] == "unchanged"
    assert ada.patch("services/chat/", {"replicas": 7}).status_code == 200
    assert applied(ada, taken_over, overwrite=True)["service"] == "changed"
    service = Service.objects.get()
    assert (service.replicas, service.description) == (6, "By hand.")


def test_a_field_that_leaves_the_file_is_emptied(ada: Api) -> None:
    applied(ada, [PLAN, changed(SERVICE, description="Of the file.")])
    applied(ada, [PLAN, SERVICE])
    assert Service.objects.get().description == ""


def test_only_what_the_files_made_is_pruned(ada: Api) -> None:
    applied(ada, ALL)
    other = {"name": "Holidays", "team": "vision", "starts_at": "2026-12-24T17:00:00Z", "minutes": 60}
    assert ada.post("freezes/", other).status_code == 201

    left = ada.post("configuration/apply/", {"team": "vision", "documents": [PLAN], "dry_run": True}).json()
    assert {row["team"] for row in left["results"]} == {"vision"}
    assert applied(ada, [PLAN, SERVICE], prune=True, reason="Agreed.") == {
        **{"plan": "unchanged", "service": "unchanged"},
        **{"freeze": "removed", "policy": "removed"},
    }
    assert [row.name for row in Freeze.objects.filter(ended_at=None)] == ["Holidays"]
    assert TeamPolicy.objects.get().body.get("plans") is None
    # Nothing removes a service: its traffic may be on it.
    assert applied(ada, [PLAN], prune=True)["service"] == "released"
    assert Service.objects.filter(name="chat").exists()


def test_an_object_belongs_to_one_set_and_a_field_that_is_set_for_good_is_not_changed(ada: Api) -> None:
    applied(ada, [PLAN, SERVICE])
    for wanted, field in ((SERVICE, "name"), (changed(SERVICE, model="other"), "name")):
        answer = ada.post(
            "configuration/apply/", {"team": "vision", "file_set": "other", "documents": [wanted]}
        )
        assert [*answer.json()["errors"]] == [f"documents.0.{field}"]
    answer = ada.post(
        "configuration/apply/", {"team": "vision", "documents": [changed(SERVICE, model="other")]}
    )
    assert [*answer.json()["errors"]] == ["documents.0.spec.model"]


def test_who_may_not_make_an_object_by_rest_may_not_by_a_file(ada: Api) -> None:
    bea = api(person("bea", vision="developer"))
    answer = bea.post("configuration/apply/", {"team": "vision", "documents": [PLAN, POLICY]})
    assert answer.status_code == 403
    assert answer.json()["detail"].startswith("policy vision: You may not ")
    assert not Plan.objects.exists()
    cem = api(person("cem", speech="admin"))
    assert cem.post("configuration/apply/", {"team": "vision", "documents": [PLAN]}).status_code == 400


def test_an_export_is_applied_again_without_a_change(ada: Api, terminal: Terminal, tmp_path: Path) -> None:
    applied(ada, ALL)
    terminal.token = token_of(User.objects.get(username="ada"))

    assert terminal("export", "--team", "vision", "--out", tmp_path).status == 0
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        *("freeze-vision-Weekends.yaml", "plan-vision-brief.yaml"),
        *("policy-vision.yaml", "service-vision-chat.yaml"),
    }
    shown = yaml.safe_load((tmp_path / "service-vision-chat.yaml").read_text())
    assert shown["spec"]["replicas"] == 2
    said = terminal("apply", "-f", tmp_path, "--team", "vision")

    assert said.status == 0, said
    assert said.out.count("unchanged") == 4


def test_the_command_names_the_file_that_is_at_fault(ada: Api, terminal: Terminal, tmp_path: Path) -> None:
    terminal.token = token_of(User.objects.get(username="ada"))
    file = tmp_path / "all.yaml"
    file.write_text(yaml.safe_dump_all([PLAN, changed(SERVICE, replicas=0)]))
    said = terminal("apply", "-f", tmp_path, "--team", "vision")
    assert said.status == 1 or said.status == 2
    assert f"{file}, document 2: replicas:" in said.err
    file.write_text("- a list")
    assert terminal("apply", "-f", file, "--team", "vision").status == 2
    assert terminal("apply", "-f", tmp_path / "none", "--team", "vision").status == 2


def test_removals_by_the_command_are_confirmed(ada: Api, terminal: Terminal, tmp_path: Path) -> None:
    applied(ada, [PLAN, FREEZE])
    terminal.token = token_of(User.objects.get(username="ada"))
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(PLAN))
    asked = terminal("apply", "-f", tmp_path, "--team", "vision", "--prune")
    assert (asked.status, "Remove freeze Weekends?" in asked.err) == (2, True)
    assert terminal("apply", "-f", tmp_path, "--team", "vision", "--prune", "--yes").status == 0
    assert not Freeze.objects.filter(ended_at=None).exists()


def test_the_page_shows_what_people_changed_and_lets_them_manage_it_again(ada: Api) -> None:
    applied(ada, [PLAN, SERVICE, POLICY])
    ada.patch("services/chat/", {"replicas": 6})
    stricter = {"policy": {"plans": ["brief"], "judge": True}, "reason": "An outage."}
    assert ada.put("release-policies/vision/", stricter).status_code == 200
    browser = client_of(User.objects.get(username="ada"))
    shown = browser.get("/settings/configuration/").content.decode()
    assert "<code>replicas</code>: 2" in shown
    assert "<code>policy.judge</code>: false → <strong>true" in shown
    pk = AppliedDocument.objects.get(kind="service").pk
    browser.post(f"/settings/configuration/{pk}/forget/", {"reason": ""})
    assert not AppliedDocument.objects.filter(kind="service").exists()


def test_a_services_indicators_environments_and_pools_are_files_too(
    ada: Api, terminal: Terminal, tmp_path: Path
) -> None:
    ours = [
        {"name": "orders", "source": "pushed", "description": "Orders that fail."},
        {"name": "refused", "source": "pushed"},
    ]
    stages = [
        {"name": "staging", "service": "chat"},
        {"name": "production", "service": "chat-live", "is_automatic": True},
    ]
    live = {**SERVICE, "name": "chat-live"}
    pool = {"kind": "pool", "name": "shared", "spec": {"cluster": "local", "workers": 4, "mode": "advise"}}
    graph = {"kind": "environments", "name": "chat", "spec": {"stages": stages}}
    wanted = [PLAN, changed(SERVICE, indicators=ours), live, graph, pool]
    assert set(applied(ada, wanted).values()) == {"created"}
    assert set(applied(ada, wanted).values()) == {"unchanged"}
    orders = ServiceIndicator.objects.get(name="orders")

    other = {**graph, "spec": {"stages": [stages[1], {**stages[0], "after": []}]}}
    fewer = [PLAN, live, changed(SERVICE, indicators=ours[:1]), other, changed(pool, workers=5)]
    assert applied(ada, fewer) == {
        **{"plan": "unchanged", "service": "changed"},
        **{"environments": "changed", "pool": "changed"},
    }
    assert ServiceIndicator.objects.get() == orders, "what stays keeps its counts"
    assert [one.name for one in EnvironmentStage.objects.all()] == ["production", "staging"]
    version = version_of(team("vision"), "tiny:v2")
    Service.objects.filter(name="chat").update(stable_version=version)
    assert applied(ada, fewer)["environments"] == "unchanged", "a new version in a stage is no drift"

    terminal.token = token_of(User.objects.get(username="ada"))
    assert terminal("export", "--team", "vision", "--out", tmp_path).status == 0
    shown = yaml.safe_load((tmp_path / "environments-vision-chat.yaml").read_text())["spec"]["stages"]
    assert shown[0] == {"name": "production", "service": "chat-live", "after": [], "is_automatic": True}
    assert terminal("apply", "-f", tmp_path, "--team", "vision").out.count("unchanged") == 5
