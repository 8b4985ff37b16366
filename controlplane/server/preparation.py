"""Brings the database, the first admin, the catalogues and the static files up to date.

Run again, it changes nothing that is as it should be; of several that run at once one waits for the other.
"""

import hashlib
import logging
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import django
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection

from common.errors import Unavailable
from common.languages import compile_catalogues

COLLECTED = ".collected"
"""File among the collected ones that says what they were collected from."""
_ONE_AT_A_TIME = 7_508_211
"""Number of PostgreSQL's advisory lock. Any would do, were it nobody else's in the database."""


def prepare_or_exit() -> None:
    """Exit status 1 with the reason in a line when something cannot be brought up to date."""
    try:
        prepare()
    except DatabaseError as error:
        sys.exit(f"The database ({settings.DATABASES['default']['NAME']}) cannot be used: {error}".rstrip())
    except (CommandError, Unavailable) as error:
        sys.exit(str(error))


def prepare() -> None:
    django.setup()
    from model_store import blob_store

    blob_store.store().look()
    for bell in ("common.tasks", "common.live"):
        # Those who would hear it are not up yet.
        logging.getLogger(bell).setLevel(logging.ERROR)
    compile_catalogues(Path(*settings.LOCALE_PATHS))
    with _alone():
        call_command("migrate", interactive=False, verbosity=0)
        call_command("bootstrap_admin")
        call_command("ensure_embedded_cluster")
    collect_static(Path(settings.STATIC_ROOT))


@contextmanager
def _alone() -> Iterator[None]:
    """Of all servers of a database at a time; SQLite's is one machine's, whose home is locked already."""
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
    """Of (name, path): changes when a file comes, goes, or has another size or time."""
    digest = hashlib.sha256()
    for name, path in sorted(files):
        status = Path(path).stat()
        digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()
