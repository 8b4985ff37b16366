"""`slipway quota`: what a team may hold."""

import pytest

from accounts.states import Role
from model_store.models import StorageQuota
from tests.cast import person, token_of
from tests.slipway.conftest import Terminal

JSON = ("--output", "json")
WHY = ("--reason", "Its share of the disk.")


@pytest.fixture
def root(terminal: Terminal) -> Terminal:
    person("cleo", vision=Role.ADMIN)
    terminal.token = token_of(person("root", superuser=True))
    return terminal


def test_a_limit_is_set_shown_and_taken_away(root: Terminal) -> None:
    assert root("quota", "show", "vision").out == "vision uses 0 B; no quota\n"
    said = root("quota", "set", "vision", "1.5TB", *WHY)
    assert "vision uses 0 B of 1.5 TB" in said.out
    assert "Set by root at " in root("quota", "show", "vision").out
    assert StorageQuota.objects.get().limit_bytes == 1_500_000_000_000
    assert root(*JSON, "quota", "set", "vision", "700", *WHY).document["limit_bytes"] == 700
    (row,) = root(*JSON, "quota", "list").document
    assert (row["team"], row["limit_bytes"], row["changed_by"]) == ("vision", 700, "root")
    assert "vision  0 B   0 B       700 B" in root("quota", "list").out
    assert root(*JSON, "quota", "unset", "vision", *WHY).document["limit_bytes"] is None


@pytest.mark.parametrize("amount", ["much", "-1", "2 TiB", "1e9", "", "GB"])
def test_what_is_no_amount_is_wrong_usage(root: Terminal, amount: str) -> None:
    said = root("quota", "set", "vision", *WHY, "--", amount)
    assert (said.status, "500GB" in said.err) == (2, True), said
    assert not StorageQuota.objects.exists()


def test_a_limit_wants_a_reason_a_team_that_is_there_and_an_administrator(root: Terminal) -> None:
    assert root("quota", "set", "vision", "1GB").status == 2
    assert root("quota", "set", "nowhere", "1GB", *WHY).status == 2
    admin_of_the_team = token_of(person("carl", vision=Role.ADMIN))
    assert root("quota", "set", "vision", "1GB", *WHY, token=admin_of_the_team).status == 7
    assert root("quota", "show", "vision", token=admin_of_the_team).status == 0
    assert root("quota", "list", token=admin_of_the_team).status == 7
