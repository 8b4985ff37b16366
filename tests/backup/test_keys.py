"""The keys that open a backup: a file of their own, and from it into the home of an embedded stack."""

import stat
from pathlib import Path

import pytest

from controlplane.backup.errors import BackupError
from controlplane.backup.keys import install_keys, write_keys
from controlplane.embedded.home import Home


def test_keys_are_their_owner_s_and_come_into_an_empty_home(tmp_path: Path, settings):
    file, home = tmp_path / "keys.env", Home(tmp_path / "home")
    write_keys(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    install_keys(file, home)
    install_keys(file, home)
    assert home.secret_key.read_text().strip() == settings.SECRET_KEY
    assert home.audit_key.read_text().strip() == settings.SLIPWAY_AUDIT_KEY


def test_no_key_of_a_home_is_overwritten(tmp_path: Path):
    file, home = tmp_path / "keys.env", Home(tmp_path)
    write_keys(file)
    home.audit_key.write_text("another" * 8)
    with pytest.raises(BackupError, match="holds another key"):
        install_keys(file, home)
    file.write_text("SLIPWAY_SECRET_KEY=" + "k" * 40)
    home.audit_key.unlink()
    (tmp_path / "secret-key").unlink(missing_ok=True)
    with pytest.raises(BackupError, match="has no SLIPWAY_AUDIT_KEY"):
        install_keys(file, home)
