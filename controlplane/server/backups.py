"""`slipway-server backup` and `restore`: exit status 0, or 1 and a line that says what to do."""

import sys
from pathlib import Path

from controlplane.env import env
from controlplane.garbage import set_up_django


def backup_or_exit(directory: Path, *, keys: Path | None, with_store: bool | None, keep: int | None) -> None:
    set_up_django()
    from django.db import DatabaseError

    from common.errors import SlipwayError
    from controlplane.backup.taking import take_backup

    try:
        backup = take_backup(directory.absolute(), keys=keys, with_store=with_store, keep=keep)
    except (SlipwayError, DatabaseError) as error:
        sys.exit(str(error).strip())
    sys.stdout.write(f"Backup {backup.name} is whole, in {backup.place}.\n")
    if keys is None:
        sys.stdout.write(
            "The keys that open its secrets are not part of it. Keep SLIPWAY_SECRET_KEY and "
            "SLIPWAY_AUDIT_KEY, or have them written with --keys FILE.\n"
        )
    elif keys.absolute().is_relative_to(directory.absolute()):
        sys.stdout.write(f"{keys} lies beside what it opens: move it elsewhere.\n")


def restore_or_exit(
    directory: Path, *, name: str, replaces: bool, without_key: bool, keys: Path | None
) -> None:
    from common.errors import SlipwayError

    try:
        if keys is not None:
            from controlplane.backup.keys import install_keys
            from controlplane.embedded.home import Home

            install_keys(keys, Home(env.home))
        set_up_django()
        from django.db import DatabaseError

        from controlplane.backup.restoring import restore_backup

        try:
            backup = restore_backup(
                directory.absolute(), name=name, replaces=replaces, without_key=without_key
            )
        except DatabaseError as error:
            sys.exit(f"The database cannot be used: {error}".strip())
    except SlipwayError as error:
        sys.exit(str(error))
    sys.stdout.write(
        f"Restored as of {backup.manifest.made_at:%Y-%m-%d %H:%M} UTC. Everybody signs in again; tokens "
        "work. Next: `slipway-server prepare`, then the roles.\n"
    )
