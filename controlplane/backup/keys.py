"""What opens a backup's secrets and proves its record: a file of settings, kept elsewhere than the backup."""

from pathlib import Path

from django.conf import settings
from dotenv import dotenv_values

from common import files
from common.sealed import key_ids
from controlplane.backup.errors import BackupError
from controlplane.embedded.home import Home
from controlplane.environment import variable


def write_keys(path: Path) -> None:
    """Lines as `.env` takes them, for the owner's eyes. Raises BackupError."""
    said = {
        variable("secret_key"): settings.SECRET_KEY,
        variable("secret_key_fallbacks"): ",".join(settings.SECRET_KEY_FALLBACKS),
        variable("audit_key"): settings.SLIPWAY_AUDIT_KEY,
        variable("audit_key_fallbacks"): ",".join(settings.SLIPWAY_AUDIT_KEY_FALLBACKS),
    }
    text = "".join(f"{name}={value}\n" for name, value in said.items() if value)
    try:
        files.replace(path, text.encode(), is_secret=True)
    except OSError as error:
        raise BackupError(f"The keys cannot be written to {path}: {error.strerror}.") from None


def install_keys(path: Path, home: Home) -> None:
    """Into the home of an embedded stack, before its settings are read: they would make new ones.

    Raises BackupError when the file lacks one, or the home has another.
    """
    try:
        said = dotenv_values(path)
    except OSError as error:
        raise BackupError(f"{path} cannot be read: {error.strerror}.") from None
    for name, place in ((variable("secret_key"), home.secret_key), (variable("audit_key"), home.audit_key)):
        key = said.get(name)
        if not key:
            raise BackupError(f"{path} has no {name}. Name the file that `backup --keys` has written.")
        if place.exists() and place.read_text().strip() != key:
            raise BackupError(f"{place} holds another key than {path}. Move it away, or leave --keys out.")
        home.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        files.replace(place, f"{key}\n".encode(), is_secret=True)


def own_key_id() -> str:
    return key_ids()[0]
