"""`slipway signing`: the key of the installation, a team's trusted keys, and what it demands."""

from pathlib import Path

import pytest

from accounts.states import Role
from tests.cast import person, token_of
from tests.slipway.conftest import Terminal
from tests.trust.test_signing import key, pem_of, written
from trust.models import SignaturePolicy, TrustedKey
from trust.signing.keys import PrivateKey

JSON = ("--output", "json")
WHY = ("--reason", "It is ours.")

__all__ = ["key"]


@pytest.fixture
def cleo(terminal: Terminal) -> Terminal:
    """An admin of the team vision types."""
    terminal.token = token_of(person("cleo", vision=Role.ADMIN))
    return terminal


def test_the_public_key_of_the_installation_is_written_to_a_file(
    cleo: Terminal, key: PrivateKey, settings, tmp_path: Path
) -> None:
    public = tmp_path / "slipway.pub"
    none = cleo("signing", "show", "--to", public)
    assert (none.status, public.exists()) == (1, False)
    assert cleo("signing", "show").out == "Versions are not signed: no signing key is configured.\n"
    settings.SLIPWAY_SIGNING_KEY = str(written(tmp_path, "key.pem", pem_of(key)))
    said = cleo("signing", "show", "--to", public)
    assert said.out == f"Signed with key {key.public_key.fingerprint}\n"
    assert public.read_text() == key.public_key.pem
    settings.SLIPWAY_SIGNING_KEY = str(tmp_path / "gone.pem")
    broken = cleo("signing", "show")
    assert (broken.status, "Versions are not signed: " in broken.err) == (1, True)


def test_what_a_team_demands_is_off_until_somebody_says_otherwise(cleo: Terminal) -> None:
    assert cleo("signing", "policy", "vision").out == "vision: off\n"
    assert cleo(*JSON, "signing", "policy", "vision").document["demand"] == "off"
    assert cleo("signing", "set-policy", "vision", "require").status == 2
    said = cleo("signing", "set-policy", "vision", "require", *WHY)
    assert said.out == "vision: require (set by cleo: It is ours.)\n"
    assert cleo("signing", "policy", "vision").out == said.out
    assert SignaturePolicy.objects.get().demand == "require"
    assert cleo("signing", "set-policy", "vision", "maybe", *WHY).status == 2
    assert cleo("signing", "policy", "nowhere").status == 2
    developer = token_of(person("dan", vision=Role.DEVELOPER))
    assert cleo("signing", "set-policy", "vision", "off", *WHY, token=developer).status == 7


def test_a_key_is_trusted_listed_and_trusted_no_longer(
    cleo: Terminal, key: PrivateKey, tmp_path: Path
) -> None:
    public = written(tmp_path, "ci.pub", key.public_key.pem)
    cleo.wire.lose = 1
    trusted = cleo(*JSON, "signing", "trust", "vision", "ci", public, *WHY)
    assert (trusted.status, trusted.document["fingerprint"]) == (0, key.public_key.fingerprint)
    number = trusted.document["id"]
    assert "ci" in cleo("signing", "keys", "--team", "vision").out
    taken = cleo("signing", "trust", "vision", "ci", public, *WHY)
    assert taken.status == 1
    assert cleo("signing", "distrust", "--yes", number, *WHY).out == "vision no longer trusts ci.\n"
    assert cleo(*JSON, "signing", "keys").document == []
    (gone,) = cleo(*JSON, "signing", "keys", "--all").document
    assert gone["removed_by"] == "cleo"
    assert cleo("signing", "distrust", "--yes", number, *WHY).status == 1
    assert cleo("signing", "distrust", "--yes", 9999, *WHY).status == 2


def test_a_private_key_does_not_leave_this_machine(cleo: Terminal, key: PrivateKey, tmp_path: Path) -> None:
    private = written(tmp_path, "key.pem", pem_of(key))
    said = cleo("signing", "trust", "vision", "ci", private, *WHY)
    assert (said.status, "was not sent" in said.err) == (2, True)
    assert cleo.wire.sent == []


def test_files_that_hold_no_key_are_wrong_usage(cleo: Terminal, tmp_path: Path) -> None:
    for name, content in (("empty", b""), ("binary", b"\xff\xfe"), ("words", b"hello")):
        file = written(tmp_path, name, content)
        assert cleo("signing", "trust", "vision", "ci", file, *WHY).status == 2
    missing = cleo("signing", "trust", "vision", "ci", tmp_path / "none", *WHY)
    assert (missing.status, "No such file" in missing.err) == (2, True)
    assert not TrustedKey.objects.exists()
