"""Every error under /api is a problem document that says what to do and gives nothing away."""

import logging

import pytest
from django.db import DataError, IntegrityError, OperationalError
from django.test import Client
from rest_framework import serializers

from accounts.services import teams
from common import errors
from common.api import problems
from tests.cast import Api, api, person

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]


@pytest.fixture
def root() -> Api:
    return api(person("root", superuser=True))


def problem_of(answer) -> dict:
    assert answer["Content-Type"] == "application/problem+json"
    shown = answer.json()
    assert shown["status"] == answer.status_code
    assert shown["type"].startswith("urn:slipway:problem:")
    assert shown["title"]
    assert shown["detail"]
    assert shown["request_id"] == answer["X-Request-ID"]
    return shown


def test_a_field_that_is_missing_is_named(root):
    shown = problem_of(root.post("teams/", {}))
    assert shown["status"] == 400
    assert shown["errors"] == {"name": ["This field is required."]}
    assert "name" in shown["detail"]
    assert shown["instance"] == "/api/v1/teams/"


def test_a_fault_deep_inside_is_named_by_its_path():
    class Inner(serializers.Serializer):
        path = serializers.CharField()

    class Outer(serializers.Serializer):
        files = Inner(many=True)

    faulty = Outer(data={"files": [{"path": "a"}, {}]})
    faulty.is_valid()
    assert problems.flattened(faulty.errors) == {"files.1.path": ["This field is required."]}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"\xff", 400),
        (b'{"name": NaN}', 400),
        (b'{"name": "\\ud800"}', 400),
        (b'{"name": "a\\u0000b"}', 400),
        (b"[" * 100_000, 400),
        (b"[]", 400),
        (b"null", 400),
        (b'"x"', 400),
        (b"", 400),
        (b'{"name": 10}' + b" " * 3_000_000, 413),
    ],
    ids=lambda value: str(value[:12]) if isinstance(value, bytes) else str(value),
)
def test_a_body_that_cannot_be_read_is_a_clear_400(root, body, status):
    headers = {"Authorization": f"Bearer {root.token}"}
    answer = Client().post("/api/v1/teams/", body, content_type="application/json", headers=headers)
    assert problem_of(answer)["status"] == status


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
def test_another_content_type_is_a_415(root, content_type):
    headers = {"Authorization": f"Bearer {root.token}"}
    answer = Client().post("/api/v1/teams/", b"name=x", content_type=content_type, headers=headers)
    assert problem_of(answer)["status"] == 415


def test_a_format_that_we_do_not_speak_is_a_406(root):
    assert problem_of(root.get("teams/", Accept="text/html"))["status"] == 406


def test_a_method_that_is_not_there_is_a_405_that_says_which_are(root):
    answer = root.put("teams/", {})
    assert problem_of(answer)["status"] == 405
    assert "POST" in answer["Allow"]


@pytest.mark.parametrize("path", ["/api/v1/nowhere/", "/api/nowhere/", "/api/v1/teams/no/where/", "/api/v2/"])
def test_an_address_that_leads_nowhere_is_a_problem_too(path):
    assert problem_of(Client().get(path))["status"] == 404


def test_elsewhere_a_404_is_a_page():
    answer = Client().get("/nowhere/")
    assert answer.status_code == 404
    assert answer["Content-Type"].startswith("text/html")


def test_a_host_that_is_not_ours_is_a_400_problem():
    answer = Client(headers={"host": "evil.example"}).get("/api/v1/me/")
    assert problem_of(answer)["status"] == 400
    assert "evil" not in answer.content.decode()


@pytest.mark.parametrize("query", ["limt=3", "name=x", "cursor=&limit=1&pages=2"])
def test_a_parameter_that_is_not_there_is_refused_and_the_known_ones_are_named(root, query):
    shown = problem_of(root.get(f"teams/?{query}"))
    assert shown["status"] == 400
    assert "Known: cursor, limit, q, sort" in str(shown["errors"])


@pytest.mark.parametrize(
    "path", ["teams/?q=%00", "teams/%00/", "people/?q=a%00b", "people/%00/", "tokens/99999999999999999999/"]
)
def test_hostile_characters_and_numbers_are_no_server_error(root, path):
    assert problem_of(root.get(path))["status"] in (400, 404)


def test_a_missing_slash_is_redirected_with_method_and_body(root):
    answer = root.post("/api/v1/teams", {"name": "vision"})
    assert (answer.status_code, answer["Location"]) == (308, "/api/v1/teams/")


@pytest.fixture
def broken(monkeypatch):
    """`POST teams/` fails with whatever it is given."""

    def break_with(error: Exception) -> None:
        def fail(**_):
            raise error

        monkeypatch.setattr(teams, "create_team", fail)

    return break_with


def test_what_nobody_foresaw_is_a_500_without_its_cause_and_logged_under_the_request_id(root, broken, caplog):
    broken(RuntimeError("the password of the database is hunter2"))
    root.client.raise_request_exception = False
    answer = root.post("teams/", {"name": "vision"}, X_Request_ID="my-own-id-1")
    shown = problem_of(answer)
    assert (shown["status"], shown["request_id"]) == (500, "my-own-id-1")
    assert "hunter2" not in answer.content.decode()
    assert "RuntimeError" not in answer.content.decode()
    causes = [r.exc_info[0] for r in caplog.records if r.levelno == logging.ERROR and r.exc_info]
    assert causes == [RuntimeError]


def test_what_nobody_foresaw_still_reaches_the_test_that_caused_it(root, broken):
    broken(RuntimeError("boom"))
    with pytest.raises(RuntimeError, match="boom"):
        root.post("teams/", {"name": "vision"})


class Melted(errors.SlipwayError):
    pass


class MeltedTwice(Melted):
    pass


@pytest.mark.parametrize(
    ("error", "status", "slug"),
    [
        (errors.Missing("gone"), 404, "not-found"),
        (errors.NotAllowed("no"), 403, "not-allowed"),
        (errors.Conflict("busy"), 409, "conflict"),
        (errors.Stale("old"), 412, "stale"),
        (errors.Invalid(fields={"name": ["bad"]}), 400, "invalid"),
        (errors.Unavailable("down"), 503, "unavailable"),
        (errors.SlipwayError("hm"), 409, "refused"),
        (IntegrityError("UNIQUE constraint failed: secret_table.x"), 409, "conflict"),
        (DataError("value too long for secret_table"), 400, "invalid"),
        (OperationalError("secret_table is locked"), 503, "unavailable"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_errors_of_the_domain_and_the_database_have_their_kinds(root, broken, error, status, slug):
    broken(error)
    answer = root.post("teams/", {"name": "vision"})
    shown = problem_of(answer)
    assert (shown["status"], shown["type"]) == (status, f"urn:slipway:problem:{slug}")
    assert "secret_table" not in answer.content.decode()
    assert (status == 503) == ("Retry-After" in answer)


def test_an_app_registers_its_own_kind_and_subclasses_follow(root, broken):
    problems.register(Melted, status=423, title="It has melted", slug="melted")
    broken(MeltedTwice("Cool it first."))
    shown = problem_of(root.post("teams/", {"name": "vision"}))
    assert (shown["status"], shown["title"], shown["detail"]) == (423, "It has melted", "Cool it first.")


def test_outside_of_a_request_there_is_no_request_id():
    shown = problems.document(problems.kind_of(errors.Conflict("x")), detail="d", instance="/")
    assert "errors" not in shown
    assert shown["request_id"] == "-"


@pytest.mark.parametrize("offered", ["short", "x" * 65, "a b c d e f g h", "<script>alert(1)</script>", ""])
def test_a_request_id_that_could_do_harm_is_replaced(root, offered):
    given = root.get("me/", X_Request_ID=offered)["X-Request-ID"]
    assert given != offered
    assert len(given) == 32


def test_every_answer_has_a_request_id_and_no_two_the_same(root):
    assert (
        len({root.get("me/")["X-Request-ID"] for _ in range(3)} | {Client().get("/x/")["X-Request-ID"]}) == 4
    )
