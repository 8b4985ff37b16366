"""What a line says: which request, whose, about which row, also long after the request; never a secret."""

import io
import json
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextvars import copy_context
from datetime import timedelta
from typing import Any

import pytest
from celery import Celery
from django.conf import settings
from django.test import Client, override_settings
from django.utils.module_loading import import_string

from common.hosts import name_for_logs
from common.logs import context, redaction
from common.logs.clients import OneLineForClients
from common.logs.formatters import JsonFormatter
from common.models import Intent
from common.reconcile import Kernel
from controlplane import task_origins
from tests.cast import person
from tests.crash.harness import Clock, worker
from tests.toys.beats import KeepBeat
from tests.toys.models import Beat, Parcel
from tests.toys.parcels import ParcelReconciler
from tests.toys.scene import Scene

pytestmark = pytest.mark.any_database

REQUEST = "from-the-client-1"


@pytest.fixture
def lines() -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """Everything that is logged, as an object each, through the filters of the settings."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    for name in settings.LOGGING["handlers"]["stderr"]["filters"]:
        handler.addFilter(import_string(settings.LOGGING["filters"][name]["()"])())
    root, level = logging.getLogger(), logging.getLogger().level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    root.removeHandler(handler)
    root.setLevel(level)


def test_a_line_is_an_object_that_says_when_where_and_for_whom(lines, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(context, "_role", "web")
    with context.asked(REQUEST):
        context.note_actor("ada")
        try:
            raise ValueError("no\nsuch thing")
        except ValueError:
            logging.getLogger("a.room").exception("It failed: %s", {"password": "hunter22"})
    (line,) = lines()
    assert line["time"].endswith("+00:00")
    assert (line["level"], line["logger"], line["role"]) == ("ERROR", "a.room", "web")
    assert (line["request_id"], line["actor"]) == (REQUEST, "ada")
    assert line["host"]
    assert line["message"] == "It failed: {'password': ***}"
    assert line["exception"].endswith("ValueError: no\nsuch thing")


def test_what_a_thread_does_for_a_request_is_told_apart_from_what_it_does_for_none(lines):
    def work() -> None:
        logging.getLogger("room").warning("at work")

    with context.asked(REQUEST):
        for run in (copy_context().run, lambda call: call()):
            thread = threading.Thread(target=run, args=[work])
            thread.start()
            thread.join()
    assert [line.get("request_id") for line in lines()] == [REQUEST, None]


@pytest.mark.django_db
def test_a_step_says_which_request_has_asked_for_it_whoever_takes_it(lines):
    with context.asked(REQUEST):
        context.note_actor("ada")
        scene = Scene()
    kernel = failing(scene)
    kernel.sweep()
    said = [line for line in lines() if line["logger"] == "common.reconcile.engine"]
    assert said[0]["request_id"] == REQUEST
    assert said[0]["actor"] == "ada"
    assert (said[0]["kind"], said[0]["id"]) == ("toys.parcel", scene.parcel.pk)
    assert Intent.objects.get().origin.startswith(REQUEST)
    assert context.current().request_id == context.NONE
    with context.asked("another-request"):
        kernel.wake(scene.parcel)
    kernel.sweep()
    assert [line for line in lines() if "failed" in line["message"]][-1]["request_id"] == "another-request"


def failing(scene: Scene) -> Kernel:
    class Fails(ParcelReconciler):
        def next_step(self, row, now):
            step = super().next_step(row, now)

            def fail(row, operation):
                raise RuntimeError("the world is closed")

            step.act = fail
            return step

    return worker([Fails(scene.world)], scene.clock)


@pytest.mark.django_db
def test_what_a_row_does_every_so_often_it_does_for_the_one_request_that_woke_it_and_then_for_none():
    clock = Clock()
    kernel = worker([KeepBeat()], clock)
    beat, _ = Beat.objects.get_or_create(pk=1, defaults={"next_at": clock() + timedelta(hours=1)})
    with context.asked(REQUEST):
        kernel.wake(beat)
    beat.refresh_from_db()
    assert beat.origin.startswith(REQUEST)
    kernel.sweep()
    beat.refresh_from_db()
    assert (beat.origin, beat.seen_at) == ("", clock())


@pytest.mark.django_db
def test_a_row_that_nobody_has_asked_for_has_no_origin():
    assert Parcel.objects.create().origin == ""


def test_an_origin_reads_back_what_it_writes_and_bears_what_is_none():
    origin = context.RequestOrigin(
        REQUEST, "ada of the team", "00-" + "a" * 32 + "-" + "b" * 16 + "-01", 1_700_000_000
    )
    assert context.unpacked(origin.packed()) == origin
    assert len(context.RequestOrigin("r" * 64, "a" * 400, at=1).packed()) == context.PACKED_LENGTH
    for text in ("", "x", "a b c d", "\0" * 300):
        assert context.unpacked(text) == context.RequestOrigin()


def test_a_task_goes_back_to_the_request_that_has_rung_for_it():
    app = Celery("logs", broker="memory://", set_as_current=False)
    seen: list[str] = []

    @app.task(name="look", bind=True)
    def look(self) -> None:
        seen.append(context.current().request_id)

    with context.asked(REQUEST):
        look.apply_async()
    with app.connection_for_read() as connection, connection.SimpleQueue("celery") as queue:
        message = queue.get(timeout=5)
        message.ack()
    assert message.headers[task_origins.HEADER].startswith(REQUEST)
    look.push_request(**message.headers)
    task_origins.begin(task_id="1", task=look)
    look.run()
    task_origins.end(task_id="1")
    assert seen == [REQUEST]
    assert context.current().request_id == context.NONE


@pytest.mark.django_db
def test_the_access_log_names_the_route_and_who_asked_and_nothing_of_the_address(lines):
    with override_settings(SLIPWAY_ACCESS_LOG=True):
        client = Client()
        client.force_login(person("ada"))
        client.get(
            "/api/v1/models/?q=my-secret-search", headers={"x-request-id": REQUEST}, REMOTE_ADDR="10.0.0.9"
        )
        client.get("/healthz")
        client.get("/no-such/my-secret-path")
    told = [line for line in lines() if line["logger"] == "slipway.access"]
    assert [line["status"] for line in told] == [200, 404]
    first = told[0]
    assert (first["method"], first["route"], first["client"]) == ("GET", "model-list", "10.0.0.9")
    assert (first["request_id"], first["actor"]) == (REQUEST, "ada")
    assert first["bytes"] > 10
    assert first["duration_ms"] > 0
    assert "my-secret" not in json.dumps(told)
    (refused,) = [line for line in lines() if line["logger"] == "django.request"]
    assert refused["request_id"] == told[1]["request_id"]


@pytest.mark.django_db
def test_without_the_setting_there_is_no_access_log(lines):
    Client().get("/accounts/login/")
    assert [line for line in lines() if line["logger"] == "slipway.access"] == []


@pytest.mark.django_db
def test_another_host_s_name_is_a_warning_of_one_line(lines):
    with override_settings(ALLOWED_HOSTS=["slipway.example.org"]):
        assert Client().get("/", headers={"host": "elsewhere.example.org"}).status_code == 400
    (told,) = [line for line in lines() if line["logger"].startswith("django.security")]
    assert (told["level"], "exception" in told) == ("WARNING", False)
    assert "elsewhere.example.org" in told["message"]
    assert not any("exception" in line for line in lines())


def test_a_failure_of_our_own_keeps_its_traceback():
    failed = logging.LogRecord("django.request", logging.ERROR, "", 1, "failed", (), (None, None, None))
    vars(failed)["status_code"] = 500
    assert OneLineForClients().filter(failed)
    assert failed.exc_info is not None


def test_secrets_of_the_settings_are_hidden_wherever_they_stand(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(redaction, "_known", set())
    redaction.hide(["correct-horse-battery", "short", ""])
    assert redaction.redacted("It said (correct-horse-battery) in short.") == "It said (***) in short."


@pytest.mark.parametrize(
    "line",
    [
        "GET https://hub/x?signature=CANARY&expires=CANARY2 HTTP/1.1",
        "Cookie: theme=CANARY; other=CANARY",
        "{'Set-Cookie': 'x=CANARY; Path=/', 'Age': '1'}",
        "id eyJhbGciOiJub25lIn0.eyJzdWIiOiJDQU5BUlkifQ.CANARY was refused",
        "/login/callback/?code=CANARY",
    ],
)
def test_cookies_queries_and_signed_tokens_are_hidden(line):
    assert "CANARY" not in redaction.redacted(line)


def test_the_host_of_a_line_is_the_name_that_the_rows_have(lines, settings) -> None:
    settings.SLIPWAY_HOST = "prague"
    logging.getLogger("slipway").info("hello")
    assert lines()[-1]["host"] == "prague"


def test_a_line_makes_no_name_for_a_home_that_has_none(settings, tmp_path) -> None:
    settings.SLIPWAY_HOST, settings.SLIPWAY_HOME = "", tmp_path
    assert name_for_logs() == socket.gethostname()
    assert not list(tmp_path.iterdir())
