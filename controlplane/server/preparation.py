"""Brings the database, the first admin, the catalogues and the static files up to date.

Run again, it changes nothing that is as it should be; of several that run at once one waits for the other.
"""

import hashlib
import logging
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import DatabaseError, OperationalError, connection
from psycopg.errors import LockNotAvailable

from common.audit_places import is_local
from common.errors import Unavailable
from common.languages import compile_catalogues
from controlplane.garbage import set_up_django

COLLECTED = ".collected"
"""File among the collected ones that says what they were collected from."""
_ONE_AT_A_TIME = 7_508_211
"""Number of PostgreSQL's advisory lock. Any would do, were it nobody else's in the database."""


def prepare_or_exit(only: str | None = None) -> None:
    """Exit status 1 with the reason in a line when something cannot be brought up to date."""
    try:
        if only == "database":
            prepare_database()
        elif only == "files":
            prepare_files()
        else:
            prepare()
    except DatabaseError as error:
        sys.exit(f"The database ({settings.DATABASES['default']['NAME']}) cannot be used: {error}".rstrip())
    except (CommandError, Unavailable) as error:
        sys.exit(str(error))


def prepare_database() -> None:
    """Prepare the database before the processes of a release start, wherever they run. Makes no people."""
    set_up_django()
    with _alone():
        migrate()
        # Files and sockets are those of a host, which this process may not outlive.
        _take_over([place for place in settings.SLIPWAY_AUDIT_OUTPUTS if not is_local(place)])


def prepare_files() -> None:
    """Prepare this home, which may be as new as the pod that it is in. Asks no database."""
    set_up_django()
    compile_catalogues(Path(*settings.LOCALE_PATHS))
    collect_static(Path(settings.STATIC_ROOT))


def prepare() -> None:
    set_up_django()
    from model_store import blob_store

    blob_store.store().look()
    for bell in ("common.tasks", "common.live"):
        # Those who would hear it are not up yet.
        logging.getLogger(bell).setLevel(logging.ERROR)
    compile_catalogues(Path(*settings.LOCALE_PATHS))
    with _alone():
        migrate()
        _take_over(settings.SLIPWAY_AUDIT_OUTPUTS)
        call_command("bootstrap_admin")
        call_command("ensure_embedded_cluster")
    collect_static(Path(settings.STATIC_ROOT))


def _take_over(places: Sequence[str]) -> None:
    from accounts.services import audit_outputs

    audit_outputs.take_over(places)


LOCK_PATIENCE = "3s"
"""Behind a migration that waits for a table everybody waits who uses it: it gives up first."""
MIGRATE_TRIES = 20
MIGRATE_AGAIN_AFTER_SECONDS = 3.0


def migrate() -> None:
    """Run the missing migrations, again and again while a table that one changes is in use.

    Raises Unavailable when it stays so.
    """
    if connection.vendor != "postgresql":
        call_command("migrate", interactive=False, verbosity=0)
        return
    for last in (False,) * (MIGRATE_TRIES - 1) + (True,):
        try:
            with _impatient():
                call_command("migrate", interactive=False, verbosity=0)
            return
        except OperationalError as error:
            if not isinstance(error.__cause__, LockNotAvailable):
                raise
            told = f"A table that a migration changes is in use. {_oldest_transaction()}"
            if last:
                raise Unavailable(f"{told} End that, then run it again.") from None
            sys.stdout.write(f"{told} Trying again in {MIGRATE_AGAIN_AFTER_SECONDS:g} s.\n")
            time.sleep(MIGRATE_AGAIN_AFTER_SECONDS)


@contextmanager
def _impatient() -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, false)", [LOCK_PATIENCE])
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("RESET lock_timeout")


def _oldest_transaction() -> str:
    """Who is likely to hold it, as a sentence."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid, coalesce(client_addr::text, 'this machine'), "
            "extract(epoch FROM now() - xact_start)::int FROM pg_stat_activity "
            "WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid() "
            "ORDER BY xact_start LIMIT 1"
        )
        found = cursor.fetchone()
    if found is None:
        return "Nobody holds it any more."
    return f"The oldest transaction is that of process {found[0]} ({found[1]}), {found[2]} s old."


@contextmanager
def _alone() -> Iterator[None]:
    """Let in one server of a database at a time; SQLite's is one machine's, whose home is locked already."""
    if connection.vendor != "postgresql":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [_ONE_AT_A_TIME])
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [_ONE_AT_A_TIME])


def collect_static(root: Path) -> None:
    """Collect the static files unless every one of them is as it was the last time."""
    from django.contrib.staticfiles.finders import get_finders

    found = ((path, storage.path(path)) for finder in get_finders() for path, storage in finder.list(()))
    fingerprint, stamp = _fingerprint(found), root / COLLECTED
    if not stamp.exists() or stamp.read_text() != fingerprint:
        root.mkdir(parents=True, exist_ok=True)
        call_command("collectstatic", interactive=False, verbosity=0)
        stamp.write_text(fingerprint)


def _fingerprint(files: Iterable[tuple[str, str]]) -> str:
    """Digest (name, path): changes when a file comes, goes, or has another size or time."""
    digest = hashlib.sha256()
    for name, path in sorted(files):
        status = Path(path).stat()
        digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()
