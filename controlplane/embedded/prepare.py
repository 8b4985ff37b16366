"""Brings the database, the first admin, the catalogues and the static files up to date.

`python -m controlplane.embedded.prepare`, a process of its own: Django's memory goes with it.
"""

import hashlib
import logging
import os
import sys
from collections.abc import Iterable
from pathlib import Path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.embedded")

import django
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import DatabaseError

from common.errors import Unavailable
from common.languages import compile_catalogues


def prepare() -> None:
    django.setup()
    from model_store import blob_store

    blob_store.store().look()
    for bell in ("common.tasks", "common.live"):
        # Those who would hear it are not up yet.
        logging.getLogger(bell).setLevel(logging.ERROR)
    compile_catalogues(Path(*settings.LOCALE_PATHS))
    call_command("migrate", interactive=False, verbosity=0)
    call_command("bootstrap_admin")
    call_command("ensure_embedded_cluster")
    collect_static(Path(settings.STATIC_ROOT))


def collect_static(root: Path) -> None:
    """Collect the static files unless every one of them is as it was the last time."""
    from django.contrib.staticfiles.finders import get_finders

    found = ((path, storage.path(path)) for finder in get_finders() for path, storage in finder.list(()))
    fingerprint, stamp = _fingerprint(found), root / ".collected"
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


if __name__ == "__main__":
    try:
        prepare()
    except DatabaseError as error:
        sys.exit(f"The database ({settings.DATABASES['default']['NAME']}) cannot be used: {error}".rstrip())
    except (CommandError, Unavailable) as error:
        sys.exit(str(error))
