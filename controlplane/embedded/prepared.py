"""Whether the last preparation still holds, found out without the seconds that Django takes to load."""

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from controlplane.embedded.home import Home
from controlplane.environment import PROJECT, Environment

LEFT_OUT = {".git", ".venv", "node_modules", "__pycache__", "docs", "tests", "perf"}
INSTALLED = ("constraints.txt", "package-lock.json", ".venv/slipway-installed.json", ".env")


def is_prepared(env: Environment, home: Home) -> bool:
    """No file of the project, no setting, and neither database nor first token is another than then."""
    try:
        noted = json.loads(_note(home).read_text())
        return bool(noted == _present(env, home))
    except (OSError, ValueError, sqlite3.Error):
        return False


def note_prepared(env: Environment, home: Home) -> None:
    """Call it right after a preparation; a database of which nothing can be seen from here is not noted."""
    try:
        _note(home).write_text(json.dumps(_present(env, home)))
    except (OSError, sqlite3.Error):
        _note(home).unlink(missing_ok=True)


def _note(home: Home) -> Path:
    return home.run / "prepared.json"


def _present(env: Environment, home: Home) -> list[object]:
    """Raises OSError or sqlite3.Error when there is no database file to look into."""
    if env.database_url:
        raise OSError("another server's database may change without us")
    database = home.path / "db.sqlite3"
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        migrations = connection.execute("SELECT count(*), max(id) FROM django_migrations").fetchone()
    return [
        database.stat().st_ino,
        list(migrations),
        (home.path / "admin-token").stat().st_mtime_ns,
        (home.path / "static" / ".collected").stat().st_mtime_ns,
        hashlib.sha256(env.model_dump_json().encode()).hexdigest(),
        _files_digest(home),
    ]


def _files_digest(home: Home) -> str:
    digest = hashlib.sha256(os.fsencode(PROJECT))
    for path in sorted(_files(home)):
        status = path.stat()
        digest.update(os.fsencode(path) + f"\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _files(home: Home) -> Iterator[Path]:
    for directory, names, files in os.walk(PROJECT):
        names[:] = [name for name in names if name not in LEFT_OUT and Path(directory, name) != home.path]
        if Path(directory) != PROJECT:
            yield from (Path(directory, file) for file in files)
    yield from (path for name in INSTALLED if (path := PROJECT / name).exists())
