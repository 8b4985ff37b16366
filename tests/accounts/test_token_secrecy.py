"""A token's secret is nowhere but in the one answer that shows it: canaries in every answer, log and row."""

import io
import logging
import zipfile

import pytest
from django.apps import apps
from django.db import connection
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from accounts import keys
from common.logs.formatters import TextFormatter
from common.logs.redaction import redacted
from tests.accounts.rights_matrix import ROUTES, Scene
from tests.cast import PASSWORD, Api, person

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("import_root"), pytest.mark.any_database]


@pytest.fixture
def log():
    """Everything that is logged, as the real formatter writes it."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(TextFormatter("{name} {message}", style="{"))
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield stream
    root.removeHandler(handler)
    root.setLevel(level)


def all_rows() -> str:
    shown = []
    for model in apps.get_models(include_auto_created=True):
        if model._meta.db_table in connection.introspection.table_names():
            shown += [str(row) for row in model._base_manager.values()]
    return "\n".join(shown)


def unpacked(answer):
    if answer.headers.get("Content-Type") != "application/zip":
        return bytes(answer.content)
    with zipfile.ZipFile(io.BytesIO(answer.content)) as packed:
        return b"".join(packed.read(name) for name in packed.namelist())


def test_a_secret_is_in_one_answer_and_in_no_other_no_log_line_and_no_row(log):
    scene = Scene.of_superuser()
    client = Client()
    client.force_login(scene.user)
    created = Api(client=client).post(
        "tokens/", {"name": "canary", "scopes": ["read", "people.admin"]}, Idempotency_Key="k1"
    )
    text = created.json()["token"]
    secret = text.rsplit("_", 1)[1]
    canary = Api(text)
    # What deletes comes last, so that there is something to ask for.
    routes = sorted(ROUTES, key=lambda route: route.method == "DELETE")
    pages = "/admin/accounts/apitoken/", f"/admin/accounts/apitoken/{created.json()['id']}/change/"
    answers = [
        Api(client=client).post("tokens/", {"name": "canary", "scopes": ["read"]}, Idempotency_Key="k1"),
        *[canary.call(route.method, route.path_in(scene), route.body_in(scene)) for route in routes],
        *[client.get(page) for page in pages],
        Api(text + "x").get("me/"),
        Api(text).get(f"teams/?cursor={text}"),
    ]
    logging.getLogger("careless").error("Sent %s and Authorization: Bearer %s", text, text)
    assert len(answers) > len(ROUTES)
    for answer in answers:
        assert answer.streaming or secret.encode() not in unpacked(answer)
        assert secret not in str(answer.headers)
    assert "careless Sent slp_" in log.getvalue()
    assert secret not in log.getvalue()
    assert secret not in all_rows()


def test_a_password_is_in_no_answer_no_log_line_and_no_row(log):
    scene = Scene.of_superuser()
    canary = "canary-" + PASSWORD
    made = scene.api.post("people/", {"username": "ada", "password": canary}, Idempotency_Key="k1")
    assert made.status_code == 201
    assert scene.api.post("people/ada/password/", {"password": canary}).status_code == 204
    Client().post("/accounts/login/", {"login": "ada", "password": canary})
    Client().post("/accounts/login/", {"login": "ada", "password": canary + "!"})
    shown = [scene.api.get(path).content.decode() for path in ("people/", "people/ada/", "me/")]
    for text in (*shown, made.content.decode(), log.getvalue(), all_rows()):
        assert canary not in text


@given(st.text(max_size=30), st.text(max_size=30))
def test_a_token_is_redacted_wherever_it_stands_in_a_line(before, after):
    key = keys.new_key()
    assert key.secret not in redacted(f"{before} {key.text} {after}")


@pytest.mark.parametrize(
    "line",
    [
        "Authorization: Bearer CANARYcanary",
        "{'authorization': 'Basic CANARYcanary'}",
        "postgresql://slipway:CANARYcanary@db/slipway refused",
        "password=CANARYcanary&x=1",
        '{"client_secret": "CANARYcanary"}',
        "cookie: sessionid=CANARYcanary; csrftoken=CANARYcanary",
        "token hf_CANARYcanary",
        "api_key='CANARYcanary'",
        "SECRET_KEY: CANARYcanary",
    ],
)
def test_other_secrets_are_redacted_too(line):
    assert "CANARY" not in redacted(line)


@pytest.mark.parametrize(
    "line",
    [
        "TTFT 12 ms, 40 tokens per second",
        "secretary of the team",
        "GET /api/v1/tokens/ 200",
        "slp_ is the prefix",
    ],
)
def test_a_line_without_a_secret_stays_as_it_is(line):
    assert redacted(line) == line


def test_a_traceback_is_redacted():
    record = logging.LogRecord("x", logging.ERROR, __file__, 1, "failed", None, None)
    key = keys.new_key()
    try:
        raise ValueError(f"no such token {key.text}")
    except ValueError as error:
        record.exc_info = (ValueError, error, error.__traceback__)
    shown = TextFormatter("{message}", style="{").format(record)
    assert "ValueError: no such token slp_" in shown
    assert key.secret not in shown


def test_keys_read_back_what_they_write():
    key = keys.new_key()
    assert keys.parse(key.text) == key
    assert key.proves(key.hash)
    assert not keys.new_key().proves(key.hash)


@given(st.text())
def test_what_is_no_key_is_none(text):
    assert keys.parse(text) is None or text.startswith("slp_")


def test_people_cannot_be_told_apart_by_their_hashes():
    first, second = person("ada"), person("bob")
    assert first.password != second.password
