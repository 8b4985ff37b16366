"""Whatever stands where a name belongs, a command reaches what bears that name, or nothing."""

from collections.abc import Sequence
from contextlib import suppress
from urllib.parse import unquote

import httpx2
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from accounts.models import Team
from slipway.cli import main
from slipway.cli.context import CliEnvironment
from slipway.client import Client, at
from slipway.exits import CommandFailed, Exit
from tests.cast import person, team, token_of
from tests.slipway.conftest import URL, Terminal

ROOT = "/api/v1/"
NAMES = st.text(max_size=12) | st.text("./\\%2eEfF?#;:@&= é\n\udc80", max_size=12)
HOSTILE = ["", ".", "..", "../../../teams/evil", "%2e%2e", "..%2f..", "v1/", "x?y=1", "x#y", "a\nb", "\udc80"]
COMMANDS = [
    # What is typed, with the names as 0 and 1, and where that leads.
    (["models", "show", "--", 0], ["models", 0]),
    (["models", "versions", "--", 0], ["models", 0, "versions"]),
    (["models", "edit", "--task", "x", "--", 0], ["models", 0]),
    (["models", "delete", "--whole-model", "--yes", "--reason", "x", "--", 0], ["models", 0]),
    (["models", "delete", "--yes", "--reason", "x", "--", (0, 1)], ["models", 0, "versions", 1]),
    (["models", "card", "--", (0, 1)], ["models", 0, "versions", 1, "card"]),
    (["models", "archive", "--reason", "x", "--", (0, 1)], ["models", 0, "versions", 1, "archive"]),
    (["models", "signature", "--to", "/dev/null", "--", (0, 1)], ["models", 0, "versions", 1, "signature"]),
    (["models", "evaluate", "-f", "a=1", "--", (0, 1)], ["models", 0, "versions", 1, "evaluations"]),
    (["models", "figures", "--", (0, 1)], ["models", 0, "versions", 1, "evaluations"]),
    (["models", "compare", "--", "m:v", 0], ["models", "m", "versions", "v", "compare", 0]),
    (["models", "import", "--", 0, "/x"], ["models", 0, "versions"]),
    (["models", "push", "/x", "--model", 0], ["models", 0]),
    (["models", "retention", "show", "--", 0], ["models", 0, "retention"]),
    (["models", "retention", "drop", "--yes", "--", 0], ["models", 0, "retention"]),
    (
        ["models", "retention", "apply", "--yes", "--preview", "p", "--", 0],
        ["models", 0, "retention", "apply"],
    ),
    (["alias", "set", "--reason", "x", "--", 0, "m:v"], ["models", "m", "aliases", 0]),
    (["alias", "delete", "--yes", "--reason", "x", "--model", 0, "--", 1], ["models", 0, "aliases", 1]),
    (["alias", "history", "--model", 0, "a"], ["models", 0, "aliases", "a", "history"]),
    (["alias", "protect", "--model", 0, "a"], ["models", 0]),
    (["upload", "cancel", "--yes", "--reason", "x", "--", 0, "3"], ["models", 0, "uploads", "3", "cancel"]),
    (["images", "show", "--", 0], ["images", 0]),
    (["images", "deprecate", "--reason", "x", "--", 0], ["images", 0, "deprecate"]),
    (["service", "show", "--", 0], ["services", 0]),
    (["quota", "unset", "--reason", "x", "--", 0], ["teams", 0, "storage"]),
    (["signing", "demand", "--reason", "x", "--", 0, "off"], ["signature-policies", 0]),
]


def typed(command: list[str | int | tuple[int, int]], names: tuple[str, str]) -> list[str]:
    def word(one: str | int | tuple[int, int]) -> str:
        if isinstance(one, tuple):
            return ":".join(names[place] for place in one)
        return names[one] if isinstance(one, int) else one

    return [word(one) for one in command]


def places_of(requests: list[httpx2.Request]) -> set[tuple[str, ...]]:
    """Return the places that a server, which unescapes a path before it looks, finds for the requests."""
    paths = [unquote(request.url.raw_path.partition(b"?")[0].decode()) for request in requests]
    assert all(path.startswith(ROOT) and path.endswith("/") for path in paths), paths
    return {tuple(path.removeprefix(ROOT)[:-1].split("/")) for path in paths}


def test_every_command_keeps_a_name_in_one_segment_or_sends_nothing() -> None:
    """A name that leads somewhere and one that does not; the property below draws more."""
    for command, place in COMMANDS:
        segment_or_nothing(command, place, ("m?x=1", "v 1#"))
        segment_or_nothing(command, place, ("..", "../../../teams/evil"))


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(COMMANDS),
    st.tuples(st.sampled_from(HOSTILE) | NAMES, st.sampled_from(HOSTILE) | NAMES),
)
@example(COMMANDS[0], ("tiny", "v1"))
@example(COMMANDS[4], ("tiny", "../../../teams/evil"))
def test_a_name_is_one_segment_or_nothing_is_sent_and_it_ends_with_2(
    command: tuple[list[str | int | tuple[int, int]], Sequence[str | int]], names: tuple[str, str]
) -> None:
    segment_or_nothing(*command, names)


def segment_or_nothing(
    command: list[str | int | tuple[int, int]], place: Sequence[str | int], names: tuple[str, str]
) -> None:
    # The first colon parts a model from its version.
    names = names[0].replace(":", ""), names[1]
    sent: list[httpx2.Request] = []

    def absent(request: httpx2.Request) -> httpx2.Response:
        sent.append(request)
        return httpx2.Response(404)

    arguments = ["--url", URL, *typed(command, names)]
    with pytest.MonkeyPatch.context() as environment, pytest.raises(SystemExit) as ended:
        environment.setenv("SLIPWAY_TOKEN", "slp_x")
        main(arguments, outside=CliEnvironment(transport=httpx2.MockTransport(absent)))
    assert ended.value.code == Exit.USAGE
    segments = tuple(names[one] if isinstance(one, int) else one for one in place)
    assert places_of(sent) == ({segments} if all(map(is_a_name, segments)) else set())


@given(st.lists(st.sampled_from(HOSTILE) | NAMES, min_size=1, max_size=4))
def test_an_address_is_of_exactly_its_segments(segments: list[str]) -> None:
    sent: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(request)
        return httpx2.Response(200, json={})

    with Client(URL, "slp_x", transport=httpx2.MockTransport(answer)) as client, suppress(CommandFailed):
        client.get(at(*segments))
    assert places_of(sent) == ({tuple(segments)} if all(map(is_a_name, segments)) else set())


def is_a_name(segment: str) -> bool:
    return segment not in ("", ".", "..") and segment.isprintable() and not {*"/\\"} & {*segment}


def test_a_version_that_climbs_out_of_its_model_deletes_no_team(terminal: Terminal) -> None:
    terminal.token = token_of(person("root", superuser=True))
    team("evil")
    for climbing in ("../../../teams/evil", "..%2f..%2f..%2fteams%2fevil", "%2e%2e/%2e%2e/%2e%2e/teams/evil"):
        assert terminal("models", "delete", "--yes", "--reason", "x", f"host:{climbing}").status == Exit.USAGE
    assert Team.objects.filter(name="evil").exists()


def test_what_is_no_name_is_said_before_anything_is_sent(terminal: Terminal) -> None:
    said = terminal("models", "show", "../teams", token="slp_x")
    assert (said.status, "'../teams' is not a valid name" in said.err, terminal.wire.sent) == (2, True, [])


def test_a_name_with_a_question_mark_is_a_model_that_is_not_there(terminal: Terminal) -> None:
    said = terminal("models", "show", "m?x=1", token=token_of(person("root", superuser=True)))
    assert (said.status, "/models/m?x=1/ does not exist" in said.err) == (2, True)


def test_options_that_are_not_text_make_no_sense(terminal: Terminal) -> None:
    for search in (("models", "list", "--search", "\udc80"), ("models", "create", "\udc80")):
        said = terminal(*search, token="slp_x")
        assert (said.status, "UTF-8" in said.err) == (2, True)


def test_numbers_that_are_none_make_no_sense(terminal: Terminal) -> None:
    for number in ("inf", "nan"):
        said = terminal("capacity", "replay", "chat", "--target", number, token="slp_x")
        assert (said.status, "finite" in said.err, terminal.wire.sent) == (2, True, [])
