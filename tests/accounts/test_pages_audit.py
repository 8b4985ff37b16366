"""The audit record as a page, as files and over REST."""

import csv
import io

import orjson
import pytest
from django.db import transaction
from django.test import AsyncClient, Client

from accounts.actors import of_user
from accounts.models import ApiToken
from accounts.services import teams
from accounts.states import Role
from common.audit import record
from common.models import AuditRecord
from tests import cast
from tests.cast import Api

pytestmark = pytest.mark.django_db


def client_of(user) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def root():
    return cast.person("root", superuser=True)


@pytest.fixture
def deeds(root):
    """Two teams, each with a deed of its own."""
    for name in ("vision", "speech"):
        teams.create_team(actor=of_user(root), name=name, description="=cmd()")
    vic = cast.person("vic")
    teams.set_role(
        actor=of_user(root), user=vic, team=cast.team("vision"), role=Role.APPROVER, reason="=1+1 joins"
    )
    return vic


def test_an_administrator_sees_everything_and_a_team_its_part(root, deeds):
    assert "speech" in client_of(root).get("/audit/").content.decode()
    page = client_of(deeds).get("/audit/").content.decode()
    assert "your teams" in page
    assert "vision" in page
    assert "speech" not in page


def test_an_entry_names_its_resource_links_its_page_and_names_the_token(root, deeds):
    text = cast.token_of(root, scopes=["read", "people.admin"])
    ApiToken.objects.update(name="nightly")
    Api(text).patch("teams/vision/", {"description": "Images"})
    with transaction.atomic():
        record(of_user(root), "release.approve", subject=root)
        AuditRecord.objects.filter(action="release.approve").update(
            subject_kind="releases.release", subject_label="chat to v2", subject_id="404"
        )
    client = client_of(root)
    page = client.get("/audit/").content.decode()
    assert '<a class="row-link" href="/settings/teams/vision/">vision</a>' in page
    assert "API token nightly" in page
    assert '<div class="cell-sub">Release</div>' in page
    assert "releases.release" not in page
    assert "<td>chat to v2<div" in page, "what is gone has a name and no link"


def test_who_may_not_read_it_is_told_who_may(db):
    viewer = client_of(cast.person("eve", vision="viewer"))
    for path in ("/audit/", "/audit/export.csv", "/audit/export.json"):
        answer = viewer.get(path)
        assert answer.status_code == 403
        assert "You don't have permission to read the audit log" in answer.content.decode()
    assert viewer.post("/audit/verify/").status_code == 403


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("actor=ROOT", {"team.create", "member.add"}),
        ("actor=nobody", set()),
        ("action=member.", {"member.add"}),
        ("subject=speech", {"team.create"}),
        ("q=joins vic", {"member.add"}),
        ("since=2999-01-01T00:00", set()),
        ("until=2999-01-01T00:00", {"team.create", "member.add"}),
    ],
)
def test_filters_narrow_the_page_and_the_rest_list_alike(root, deeds, query, found):
    page = client_of(root).get(f"/audit/?{query}")
    assert {row.action for row in page.context["listing"].rows} - {"session.login"} == found
    listed = orjson.loads(cast.api(root).get(f"audit/?{query}&limit=1000").content)
    assert {row["action"] for row in listed["results"]} - {"session.login"} == found


def test_verifying_says_that_the_chain_holds_or_where_it_breaks(root, deeds):
    client = client_of(root)
    count = AuditRecord.objects.count()
    assert f"{count} entries verified" in client.post("/audit/verify/").content.decode()
    assert orjson.loads(cast.api(root).get("audit/verify/").content)["intact"] is True
    AuditRecord.objects.filter(action="member.add").update(reason="forged")
    broken = AuditRecord.objects.get(action="member.add").seq
    assert f"Row {broken} was altered" in client.post("/audit/verify/").content.decode()
    verdict = orjson.loads(cast.api(root).get("audit/verify/").content)
    assert (verdict["intact"], verdict["broken_seq"]) == (False, broken)


def test_the_csv_holds_every_row_and_no_formula(root, deeds):
    answer = client_of(root).get("/audit/export.csv?action=member.")
    rows = list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode())))
    assert [row["action"] for row in rows] == ["member.add"]
    assert rows[0]["reason"] == "'=1+1 joins"
    assert "attachment" in answer["Content-Disposition"]


def test_the_json_holds_one_row_a_line_oldest_first(root, deeds, monkeypatch):
    monkeypatch.setattr("accounts.views.audit.CHUNK", 2)
    answer = client_of(root).get("/audit/export.json")
    rows = [orjson.loads(line) for line in b"".join(answer.streaming_content).splitlines()]
    assert [row["seq"] for row in rows] == list(
        AuditRecord.objects.order_by("seq").values_list("seq", flat=True)
    )


def test_a_teams_export_holds_only_its_part(root, deeds):
    answer = client_of(deeds).get("/audit/export.json")
    rows = [orjson.loads(line) for line in b"".join(answer.streaming_content).splitlines()]
    assert {row["team_id"] for row in rows} == {cast.team("vision").pk}


@pytest.mark.django_db(transaction=True)
async def test_under_asgi_the_export_is_streamed(transactional_db):
    from asgiref.sync import sync_to_async

    root = await sync_to_async(cast.person)("root", superuser=True)
    await sync_to_async(teams.create_team)(actor=of_user(root), name="vision")
    client = AsyncClient()
    await client.aforce_login(root)
    answer = await client.get("/audit/export.json")
    assert answer.is_async
    lines = b"".join([part async for part in answer.streaming_content]).splitlines()
    assert "team.create" in {orjson.loads(line)["action"] for line in lines}


def test_more_rows_ask_no_more_questions(root, deeds, django_assert_max_num_queries):
    client = client_of(root)
    with django_assert_max_num_queries(7):
        client.get("/audit/")
    for number in range(30):
        teams.create_team(actor=of_user(root), name=f"team{number}")
    with django_assert_max_num_queries(7):
        client.get("/audit/")
