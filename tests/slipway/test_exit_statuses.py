"""What the exit status of `slipway release` tells a pipeline: the promise of the README."""

import io
import socket
from pathlib import Path

import httpx2
import pytest

from releases.models import Release
from releases.services.approval import reject
from releases.services.plan import save_plan
from releases.states import ReleaseState
from slipway.cli import main
from slipway.cli.context import CliEnvironment
from tests.releases.world import SWIFT, Scene
from tests.slipway.conftest import Terminal, token_for


def start(terminal: Terminal, scene: Scene, *options: object):
    return terminal("release", "start", "--yes", scene.name, scene.v2, "--reason", "better", *options)


def latest(scene: Scene) -> Release:
    return Release.objects.filter(service=scene.service).latest("pk")


def test_0_when_it_is_promoted(terminal: Terminal, scene: Scene) -> None:
    scene.follow("direct")
    said = start(terminal, scene, "--wait")

    assert said.status == 0, said
    assert said.out.startswith(f"Release {latest(scene).pk}: {scene.v2} on {scene.name} is promoted. ")
    assert latest(scene).state == ReleaseState.PROMOTED


def test_not_0_when_its_plan_falls_short_and_0_for_who_may_say_why_that_is_right(
    terminal: Terminal, scene: Scene
) -> None:
    bypass = ("--plan", "direct", "--bypass", "the leak must stop")
    said = start(terminal, scene, *bypass)
    assert said.status != 0
    assert "releases.bypass" in said.err
    admin = token_for(scene._person("cleo", "admin"))
    words = ("release", "start", "--yes", scene.name, scene.v2, "--reason", "better")
    assert terminal(*words, *bypass, token=admin).status == 0
    assert latest(scene).bypass_reason == "the leak must stop"


def test_0_at_once_without_waiting(terminal: Terminal, scene: Scene) -> None:
    said = start(terminal, scene)

    assert (said.status, latest(scene).state) == (0, ReleaseState.PENDING)
    assert f"/releases/{latest(scene).pk}/" in said.err


def test_1_when_it_gives_up_and_why(terminal: Terminal, scene: Scene) -> None:
    scene.prober.fault = "it answers 500"

    said = start(terminal, scene, "--wait")

    assert said.status == 1
    assert latest(scene).state == ReleaseState.FAILED
    assert "it answers 500" in said.out


def test_3_when_a_person_says_no(terminal: Terminal, scene: Scene) -> None:
    go_on = terminal.while_waiting

    def reject_when_asked() -> None:
        go_on()
        if latest(scene).state == ReleaseState.WAITING_APPROVAL and not latest(scene).halt:
            reject(latest(scene), actor=scene.approver, reason="not on a Friday")

    terminal.while_waiting = reject_when_asked
    said = start(terminal, scene, "--wait")

    assert said.status == 3
    assert said.out.endswith("is rejected. not on a Friday\n")


def test_4_when_time_is_over(terminal: Terminal, scene: Scene) -> None:
    assert start(terminal, scene, "--wait", "--timeout", 0).status == 4


def test_5_when_a_person_is_needed(terminal: Terminal, scene: Scene) -> None:
    said = start(terminal, scene, "--wait-for", "approval")

    assert said.status == 5
    assert latest(scene).state == ReleaseState.WAITING_APPROVAL


def test_6_when_the_service_is_frozen(terminal: Terminal) -> None:
    terminal.wire.refusal = {
        "type": "urn:slipway:problem:frozen",
        "status": 409,
        "title": "Frozen",
        "detail": "No releases before Monday.",
    }
    said = terminal("release", "start", "--yes", "chat", "story:v2", token="slp_x")

    assert (said.status, said.err) == (6, "slipway: No releases before Monday.\n")


def test_7_with_a_token_that_nobody_knows(terminal: Terminal) -> None:
    assert terminal("release", "list", token="slp_wrong_wrong").status == 7


def test_7_for_who_asked_for_the_release_and_approves_it(terminal: Terminal, scene: Scene) -> None:
    scene.start()
    scene.run_until_state(ReleaseState.WAITING_APPROVAL)

    assert terminal("release", "approve", "--yes", scene.release.pk, "--reason", "me").status == 7


def test_8_when_nobody_answers(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIPWAY_TOKEN", "slp_x")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(SystemExit) as ended:
        main(
            ["--url", f"http://127.0.0.1:{port}", "service", "list"],
            outside=CliEnvironment(sleep=lambda _seconds: None),
        )

    assert ended.value.code == 8
    assert f"http://127.0.0.1:{port} cannot be reached" in capsys.readouterr().err


@pytest.mark.parametrize("version", ["story", ":v2", "story:"])
def test_2_for_a_version_without_its_two_parts_and_how_to_write_one(terminal: Terminal, version: str) -> None:
    said = terminal("release", "start", "--yes", "chat", version, token="slp_x")

    assert said.status == 2
    assert said.err == f"slipway: '{version}' is not of the form MODEL:VERSION, such as chat:v2.\n"
    assert terminal.wire.sent == []


@pytest.mark.parametrize(
    "answer",
    [
        httpx2.Response(500, json={"detail": "It failed.", "request_id": "6f1c0d3e9a53"}),
        httpx2.Response(500, text="Server Error", headers={"X-Request-ID": "6f1c0d3e9a53"}),
        httpx2.Response(500, json={"detail": "It was logged under request id 6f1c0d3e9a53."}),
    ],
)
def test_1_for_a_server_that_fails_and_the_request_id_to_look_for(
    terminal: Terminal, answer: httpx2.Response
) -> None:
    terminal.wire.stumbles = lambda request: answer

    said = terminal("release", "list", token="slp_x")

    assert (said.status, said.err.count("6f1c0d3e9a53")) == (1, 1)


def test_a_token_may_come_by_a_file_or_standard_input(
    terminal: Terminal, developer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text(f"{developer}\n")
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{developer}\n"))
    for place in (tmp_path / "token", "-"):
        assert terminal("--token-file", place, "models", "list", token="").status == 0, place
    assert terminal("models", "list", token="two words").status == 2


def test_2_without_a_token_and_where_to_put_one(terminal: Terminal) -> None:
    said = terminal("release", "list")

    assert said.status == 2
    assert "SLIPWAY_TOKEN" in said.err


@pytest.mark.parametrize(
    "options",
    [
        ["--url", "not an address"],
        ["--url", "ftp://testserver"],
        ["--url", "http://"],
        ["--url", "http://testserver?x="],
        ["--url", "http://testserver/#x"],
        ["--token", "slp_secret"],
        ["--token-file", "/nowhere"],
        ["--output", "xml"],
    ],
)
def test_2_for_a_setting_that_makes_no_sense(terminal: Terminal, options: list[str]) -> None:
    token = "slp_x" if options[0] in ("--url", "--output") else ""

    said = terminal(*options, "release", "list", token=token)

    assert said.status == 2
    assert options[0] in said.err
    assert "slp_secret" not in said.err
    assert terminal.wire.sent == []


def test_2_for_what_is_not_there_and_why(terminal: Terminal, scene: Scene) -> None:
    assert terminal("release", "status", 4711).status == 2
    said = terminal("release", "start", "--yes", scene.name, "story:v9")
    assert said.status == 2
    assert "version:" in said.err


def test_2_for_a_decision_without_a_reason_where_nobody_can_be_asked(
    terminal: Terminal, scene: Scene
) -> None:
    scene.start()

    said = terminal("release", "abort", "--yes", scene.release.pk)

    assert (said.status, said.out) == (2, "")
    assert "--reason" in said.err
    assert scene.state() == ReleaseState.PENDING


def test_after_a_yes_it_waits_for_the_next_question_or_the_end(terminal: Terminal, scene: Scene) -> None:
    ask = {"kind": "approval", "timeout_seconds": 600}
    steps = [*SWIFT["steps"][:-2], ask, {"kind": "hold", "seconds": 5}, ask, SWIFT["steps"][-1]]
    save_plan(actor=scene.requester, team=scene.team, name="twice", body={"steps": steps})
    scene.start(plan_name="twice")
    scene.run_until_state(ReleaseState.WAITING_APPROVAL)
    approve = ("--output", "json", "release", "approve", "--yes", scene.release.pk, "--reason", "fine")
    approver = token_for(scene.approver)

    said = terminal(*approve, "--wait-for", "approval", token=approver)

    assert said.status == 5, said
    asked = [step["state"] for step in said.document["steps"] if step["kind"] == "approval"]
    assert asked == ["done", "running"]
    said = terminal(*approve, "--wait-for", "approval", token=approver)
    assert (said.status, said.document["state"]) == (0, "promoted")
