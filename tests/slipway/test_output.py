"""What a command says, to whom, and on which stream."""

import pytest
from django.utils import timezone

from clusters.backends.base import ObservedState
from releases.models import Release
from releases.states import ReleaseState
from tests.releases.world import Scene
from tests.slipway.conftest import Terminal, token_for

JSON = ("--output", "json")


def test_json_is_one_document_on_stdout_and_words_go_to_stderr(terminal: Terminal, scene: Scene) -> None:
    scene.follow("direct")
    said = terminal(*JSON, "release", "start", "--yes", scene.name, scene.v2, "--reason", "r", "--wait")

    assert said.document["state"] == "promoted"
    assert "is promoted" in said.err


@pytest.mark.parametrize(
    "command",
    ["models list", "service list", "service show {service}", "release list", "token list"],
)
def test_every_reading_is_a_document_for_a_program_and_words_for_a_person(
    terminal: Terminal, scene: Scene, command: str
) -> None:
    words = command.format(service=scene.name).split()

    for_program, for_person = terminal(*JSON, *words), terminal(*words)

    assert for_program.status == for_person.status == 0
    assert for_program.document
    assert for_program.err.strip() == "" or "story" in for_program.err
    assert for_person.out.strip()


def test_a_service_tells_its_traffic_in_words(terminal: Terminal, scene: Scene) -> None:
    shown = " ".join(terminal("service", "show", scene.name).out.split())

    assert shown.endswith("traffic 100 % stable, 0 % candidate")


def test_a_pipe_gets_a_line_for_each_piece_of_news(terminal: Terminal, scene: Scene) -> None:
    scene.follow("direct")
    said = terminal("release", "start", "--yes", scene.name, scene.v2, "--reason", "r", "--wait")

    lines = said.err.splitlines()
    assert "state promoted" in lines
    assert sum(line.startswith("step 4/4 promote: done") for line in lines) == 1
    assert "\x1b" not in said.err


def test_a_terminal_gets_a_live_picture(
    terminal: Terminal, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("TERM", "xterm-256color")

    scene.follow("direct")
    said = terminal("release", "start", "--yes", scene.name, scene.v2, "--reason", "r", "--wait")

    assert "✓" in said.err
    assert "\x1b[" in said.err
    assert "step 1/" not in said.err


@pytest.mark.parametrize(("verb", "by"), [("abort", "ada"), ("rollback", "ada"), ("reject", "bo")])
def test_who_gives_up_reads_that_it_is_being_given_up(
    terminal: Terminal, scene: Scene, verb: str, by: str
) -> None:
    release = scene.start()
    scene.run_until_state(ReleaseState.WAITING_APPROVAL)
    token = token_for(scene.requester if by == "ada" else scene.approver)

    said = terminal("release", verb, "--yes", release.pk, "--reason", "too slow", token=token)

    assert said.status == 0
    told = f"Release {release.pk}: {scene.v2} on {scene.name} is rolling back ({by}): too slow\n"
    assert said.out == told


def test_who_approves_reads_that_it_goes_on(terminal: Terminal, scene: Scene) -> None:
    release = scene.start()
    scene.run_until_state(ReleaseState.WAITING_APPROVAL)

    said = terminal(
        "release", "approve", "--yes", release.pk, "--reason", "fine", token=token_for(scene.approver)
    )

    assert said.out == f"Release {release.pk}: {scene.v2} on {scene.name} is approved; continuing\n"


def test_who_pauses_and_resumes_reads_what_will_be(terminal: Terminal, scene: Scene) -> None:
    release = scene.start()
    words = f"Release {release.pk}: {scene.v2} on {scene.name} is"

    said = terminal("release", "pause", release.pk, "--reason", "lunch")
    assert said.out == f"{words} pausing (ada)\n"
    scene.run_until_state(ReleaseState.PAUSED)
    assert terminal("release", "status", release.pk).out.startswith(f"{words} paused\n")
    said = terminal("release", "resume", release.pk, "--reason", "back")
    assert said.out == f"{words} resuming\n"


def test_status_says_step_weight_evidence_and_what_it_waits_for(terminal: Terminal, scene: Scene) -> None:
    scene.start()
    scene.run_until_state(ReleaseState.WAITING_APPROVAL)

    lines = terminal("release", "status", scene.name).out.splitlines()

    names = [line.partition(":")[0] for line in lines[1:]]
    assert names[:3] == ["Step", "Weight", "Evidence"]
    assert lines[1].startswith("Step: 7 of 8, approval by an approver, since 20")
    assert lines[2].startswith("Weight: desired 30 %, observed ")
    assert lines[-1].startswith("Waiting for: approval: ")


def test_status_says_why_the_clock_of_a_hold_is_stopped(terminal: Terminal, scene: Scene) -> None:
    scene.start()
    scene.run_until(lambda: scene.state() and scene.release.candidate_percent == 30)
    for worker in scene.world.observe(scene.candidate):
        scene.world.turn(worker.name, ObservedState.STARTING)
    scene.run_for(5)

    last = terminal("release", "status", scene.release.pk).out.splitlines()[-1]

    assert last.startswith("Waiting for: The candidate has no ready worker")
    assert "The clock is stopped since 20" in last
    document = terminal(*JSON, "release", "status", scene.name).document
    assert document["clock"]["why"].startswith("The candidate has no ready worker")


def test_taking_a_promoted_release_back_names_the_release_that_does_it(
    terminal: Terminal, scene: Scene
) -> None:
    release = scene.start(plan_name="direct")
    scene.run_until_state(ReleaseState.PROMOTED)

    said = terminal("release", "rollback", "--yes", release.pk, "--reason", "worse", "--wait")

    assert said.status == 0
    new = Release.objects.latest("pk")
    assert f"Release {new.pk} of {scene.v1} to {scene.name}, rolls back #{release.pk}" in said.err
    assert f"{scene.v1} on {scene.name} is promoted" in said.out


def test_who_waits_for_a_stuck_release_reads_once_why_and_what_to_do(
    terminal: Terminal, scene: Scene
) -> None:
    release = scene.start()
    Release.objects.filter(pk=release.pk).update(
        state="stuck", stuck_from="pending", stuck_at=timezone.now(), last_error="The disk is full."
    )

    said = terminal("release", "status", release.pk, "--wait", "--timeout", 1)

    assert said.status == 4
    assert said.err.count("The disk is full.") == 1
    assert f"slipway release resume {release.pk}" in said.err
    assert f"slipway release abort {release.pk}" in said.err


def test_a_row_is_not_broken_at_the_edge_of_a_pipe(terminal: Terminal, scene: Scene) -> None:
    long = "x" * 150
    terminal("release", "start", "--yes", scene.name, scene.v2, "--reason", "r")
    Release.objects.update(requester=long)

    assert long in terminal("release", "list").out
