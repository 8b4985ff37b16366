"""`slipway alias`: which are there, which are protected, and what each was when."""

import pytest

from accounts.states import Role
from models_registry.models import Alias, AliasMove, Model
from models_registry.services import aliases, catalogue
from tests.cast import SYSTEM, person, team, token_of
from tests.clusters.world import version_of
from tests.slipway.conftest import Terminal

JSON = ("--output", "json")
OF = ("--model", "tiny")
WHY = ("--reason", "Nobody asks for it.")


@pytest.fixture
def typing(terminal: Terminal) -> Terminal:
    """The terminal of bo, an approver, with tiny:production on v1."""
    version = version_of(team("vision"), "tiny:v1")
    aliases.set_alias(actor=SYSTEM, model=version.model, alias="production", version=version, reason="first")
    terminal.token = token_of(person("bo", vision=Role.APPROVER))
    return terminal


def test_aliases_are_listed_with_those_that_are_protected(typing: Terminal) -> None:
    assert "production, staging" in typing("alias", "protect", "staging", "production", *OF).out
    (row,) = typing(*JSON, "alias", "list", *OF).document
    assert (row["name"], row["version"], row["protected"]) == ("production", "v1", True)
    assert "not set: staging" in typing("alias", "list", "tiny").out
    assert "Protected aliases of tiny: staging" in typing("alias", "unprotect", "tiny", "production").out
    assert typing("alias", "unprotect", "staging", *OF).out == "Protected aliases of tiny: none\n"


def test_a_protection_that_somebody_else_gives_at_once_is_not_lost(
    typing: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = typing.wire.handle_request
    faster = ["audited"]

    def and_somebody_is_faster(request):
        if request.method == "PATCH" and faster:
            catalogue.change_model(actor=SYSTEM, model=Model.objects.get(), protected_aliases=[faster.pop()])
        return answer(request)

    monkeypatch.setattr(typing.wire, "handle_request", and_somebody_is_faster)
    assert typing("alias", "protect", "production", *OF).status == 0
    assert Model.objects.get().protected_aliases == ["audited", "production"]


def test_who_is_always_slower_is_told_in_the_end(typing: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = typing.wire.handle_request

    def and_somebody_is_faster(request):
        if request.method == "PATCH":
            catalogue.change_model(actor=SYSTEM, model=Model.objects.get(), task="x")
        return answer(request)

    monkeypatch.setattr(typing.wire, "handle_request", and_somebody_is_faster)
    said = typing("alias", "protect", "production", *OF)
    assert (said.status, "Read it again" in said.err) == (1, True)


def test_only_those_who_may_move_protected_aliases_protect_move_and_delete_them(typing: Terminal) -> None:
    developer = token_of(person("dan", vision=Role.DEVELOPER))
    assert typing("alias", "protect", "production", *OF, token=developer).status == 7
    assert typing("alias", "protect", "production", *OF).status == 0
    assert typing("alias", "delete", "production", *OF, "--yes", *WHY, token=developer).status == 7
    assert Alias.objects.exists()


def test_a_deleted_alias_keeps_its_history_and_what_it_was_at_a_time(typing: Terminal) -> None:
    unsaid = typing("alias", "delete", "production", *OF)
    assert (unsaid.status, "which points at v1" in unsaid.err) == (2, True)
    assert typing("alias", "delete", "production", *OF, "--yes", *WHY).status == 0
    moves = typing(*JSON, "alias", "history", *OF).document
    assert [(one["to_version"], one["reason"]) for one in moves] == [(None, WHY[1]), ("v1", "first")]
    then = AliasMove.objects.earliest("at").at.isoformat()
    (at_that_time,) = typing(*JSON, "alias", "history", "production", *OF, "--at", then).document
    assert at_that_time["to_version"] == "v1"
    assert "deleted" in typing("alias", "history", *OF).out
    assert typing("alias", "delete", "production", *OF, "--yes", *WHY).status == 2


def test_names_and_times_that_cannot_be_are_wrong_usage(typing: Terminal) -> None:
    assert typing("alias", "protect", "No Such Name", *OF).status == 2
    assert typing("alias", "list", "--model", "none").status == 2
    at_noon = typing("alias", "history", "tiny", "production", "--at", "2099-03-03T14:00")
    assert (at_noon.status, "is taken as UTC" in at_noon.err, "production" in at_noon.out) == (0, True, True)
    for unsaid in (("list",), ("delete", "tiny"), ("history", "tiny", "a", "b"), ("protect", "tiny")):
        said = typing("alias", *unsaid)
        assert (said.status, "Usage: MODEL" in said.err) == (2, True)
    assert typing("alias", "history", *OF, "--at", "yesterday").status == 2


def test_the_history_names_the_release_that_moved_an_alias(typing: Terminal) -> None:
    move = AliasMove.objects.get()
    aliases.set_alias(
        actor=SYSTEM,
        model=move.model,
        alias="next",
        version=move.to_version,
        reason="promoted",
        release_id=4711,
    )
    digest = (move.to_version.digest or "")[:8]
    head, promoted, by_hand = typing("alias", "history", *OF).out.splitlines()
    assert "RELEASE" in head
    assert "4711" in promoted
    assert digest in promoted
    assert by_hand.rstrip().endswith("first")


def test_a_moment_before_the_alias_was_there_is_told_in_words(typing: Terminal) -> None:
    said = typing("alias", "history", "production", *OF, "--at", "2020-03-03T14:00Z")
    assert said.out == "No alias production of tiny pointed at a version at 2020-03-03T14:00Z.\n"
    wrong = typing("alias", "history", "production", *OF, "--at", "3 March")
    assert wrong.err == "slipway: at: Give a time such as 2026-03-03T14:00Z.\n"
