"""`manage.py bootstrap_admin`: the first administrator, once, in files that nobody else can read."""

import io
import stat
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from accounts.models import ApiToken, Membership, User
from accounts.states import Right
from common.models import AuditRecord
from tests.cast import Api

pytestmark = pytest.mark.django_db


def bootstrap(home: Path, **options) -> str:
    out = io.StringIO()
    call_command("bootstrap_admin", home=home, stdout=out, **options)
    return out.getvalue()


def secrets_in(home: Path) -> tuple[str, str]:
    return tuple((home / name).read_text().strip() for name in ("admin-password", "admin-token"))


def test_the_first_run_makes_an_administrator_whose_password_and_token_work(tmp_path):
    said = bootstrap(tmp_path / "home")
    password, token = secrets_in(tmp_path / "home")
    assert password not in said
    assert token not in said
    assert Client().post("/accounts/login/", {"login": "admin", "password": password}).status_code == 302
    shown = Api(token).get("me/").json()
    assert set(shown["everywhere"]) == set(Right.values)
    assert shown["teams"][0]["team"] == "default"
    assert Membership.objects.get().role == "admin"
    assert {row.actor for row in AuditRecord.objects.exclude(action="session.login")} == {"bootstrap"}


def test_the_files_are_for_their_owner_alone_and_nothing_else_is_left(tmp_path):
    bootstrap(tmp_path)
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["admin-password", "admin-token"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_a_second_run_changes_nothing(tmp_path):
    bootstrap(tmp_path)
    before = secrets_in(tmp_path)
    assert "nothing to do" in bootstrap(tmp_path)
    assert secrets_in(tmp_path) == before
    assert (User.objects.count(), ApiToken.objects.count()) == (1, 1)


def test_lost_files_are_not_made_anew_but_the_way_is_told(tmp_path):
    bootstrap(tmp_path)
    (tmp_path / "admin-token").unlink()
    said = bootstrap(tmp_path)
    assert "bootstrap_admin --reset" in said
    assert not (tmp_path / "admin-token").exists()
    assert ApiToken.objects.count() == 1


def test_a_second_host_is_told_which_one_has_the_token(tmp_path, settings):
    settings.SLIPWAY_HOST = "first"
    bootstrap(tmp_path / "first")
    settings.SLIPWAY_HOST = "second"
    said = bootstrap(tmp_path / "second")
    assert "on the host first" in said
    assert "--reset" not in said
    ApiToken.objects.update(revoked_at=timezone.now())
    assert "--reset" in bootstrap(tmp_path / "second")


def test_a_token_that_works_no_more_is_noticed(tmp_path):
    bootstrap(tmp_path)
    ApiToken.objects.all().delete()
    said = bootstrap(tmp_path)
    assert "does not work" in said
    assert "--reset" in said


def test_who_deleted_the_password_file_is_left_in_peace(tmp_path):
    bootstrap(tmp_path)
    (tmp_path / "admin-password").unlink()
    assert "--reset" not in bootstrap(tmp_path)


def test_a_reset_gives_new_secrets_and_ends_the_old_ones(tmp_path):
    bootstrap(tmp_path)
    old_password, old_token = secrets_in(tmp_path)
    User.objects.update(is_active=False)
    bootstrap(tmp_path, reset=True)
    password, token = secrets_in(tmp_path)
    assert Api(token).get("me/").status_code == 200
    assert Api(old_token).get("me/").status_code == 401
    admin = User.objects.get()
    assert admin.check_password(password)
    assert not admin.check_password(old_password)


@pytest.mark.django_db(transaction=True)
def test_a_home_that_cannot_be_written_leaves_no_administrator_behind(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(CommandError, match="Cannot write"):
        bootstrap(tmp_path / "file")
    assert not User.objects.exists()
    assert not AuditRecord.objects.exists()
    bootstrap(tmp_path / "home")
    assert User.objects.count() == 1
