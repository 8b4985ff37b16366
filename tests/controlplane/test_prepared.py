"""A start that skips the preparation must be sure that nothing has changed since."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from controlplane.embedded import prepared
from controlplane.embedded.home import Home
from controlplane.embedded.prepared import is_prepared, note_prepared
from controlplane.environment import Environment


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project = tmp_path / "project"
    (project / "accounts").mkdir(parents=True)
    (project / "accounts" / "models.py").write_text("1")
    (project / "constraints.txt").write_text("Django==5.2")
    monkeypatch.setattr(prepared, "PROJECT", project)
    return project


@pytest.fixture
def home(project: Path) -> Home:
    """A home that has been prepared, below the project as `var/` is."""
    home = Home(project / "var")
    home.make()
    with closing(sqlite3.connect(home.path / "db.sqlite3")) as database:
        database.execute("CREATE TABLE django_migrations (id INTEGER PRIMARY KEY)")
        database.execute("INSERT INTO django_migrations VALUES (1)")
        database.commit()
    (home.path / "admin-token").write_text("token")
    (home.path / "static").mkdir()
    (home.path / "static" / ".collected").write_text("digest")
    note_prepared(Environment(), home)
    return home


def test_nothing_changed_is_prepared(home: Home) -> None:
    (home.logs / "web.log").write_text("the home itself may change")

    assert is_prepared(Environment(), home)


def more_migrations(home: Home, project: Path) -> None:
    with closing(sqlite3.connect(home.path / "db.sqlite3")) as database:
        database.execute("DELETE FROM django_migrations")
        database.commit()


CHANGES: dict[str, Callable[[Home, Path], object]] = {
    "a file of the project": lambda _, project: (project / "accounts" / "models.py").write_text("2, longer"),
    "a new file": lambda _, project: (project / "accounts" / "views.py").write_text(""),
    "a file that is gone": lambda _, project: (project / "accounts" / "models.py").unlink(),
    "a package": lambda _, project: (project / "constraints.txt").write_text("Django==5.2.19"),
    "the migrations": more_migrations,
    "a database that is gone": lambda home, _: (home.path / "db.sqlite3").unlink(),
    "a token that is gone": lambda home, _: (home.path / "admin-token").unlink(),
    "static files that are gone": lambda home, _: (home.path / "static" / ".collected").unlink(),
    "a note that is not whole": lambda home, _: (home.run / "prepared.json").write_text("["),
}


@pytest.mark.parametrize("what", CHANGES)
def test_any_change_asks_for_a_preparation(home: Home, project: Path, what: str) -> None:
    CHANGES[what](home, project)

    assert not is_prepared(Environment(), home)


def test_another_setting_asks_for_a_preparation(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIPWAY_PUBLIC_URL", "https://slipway.example.org")

    assert not is_prepared(Environment(), home)


def test_another_servers_database_is_always_prepared_anew(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLIPWAY_DATABASE_URL", "postgresql://slipway:pw@127.0.0.1/slipway")

    note_prepared(Environment(), home)

    assert not is_prepared(Environment(), home)
