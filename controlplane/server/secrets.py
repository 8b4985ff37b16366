"""`slipway-server reseal`: what a former secret key has sealed is sealed with the present one."""

import sys

from controlplane.garbage import set_up_django


def reseal_or_exit() -> None:
    """Exit status 0; 1 when there is something that no key opens, or the database cannot be used."""
    set_up_django()
    from django.db import DatabaseError, transaction

    from common import audit, resealing
    from common.actor import Actor
    from common.sealed import key_ids

    dead: list[resealing.DeadSecret] = []
    try:
        for column in resealing.columns():
            name = f"{column.model._meta.label_lower} {column.column}"
            done = resealing.reseal(column)
            dead += done.dead
            sys.stdout.write(f"{name}: {done.rows} sealed anew\n")
            if done.rows:
                with transaction.atomic():
                    detail = {"rows": done.rows, "key_id": key_ids()[0]}
                    audit.record(Actor.system("reseal"), "secrets.reseal", subject=name, detail=detail)
    except DatabaseError as error:
        sys.exit(f"The database cannot be used: {error}. Run it again: what was sealed anew stays.")
    for one in dead:
        sys.stderr.write(f"{one} opens with none of the keys: store it anew, or put its key back\n")
    if dead:
        sys.exit(1)
    sys.stdout.write("Everything is sealed with SLIPWAY_SECRET_KEY: SLIPWAY_SECRET_KEY_FALLBACKS can go.\n")
