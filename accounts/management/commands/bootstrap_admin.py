import secrets
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from accounts.errors import InvalidToken
from accounts.models import ApiToken, Team, User
from accounts.services import people, teams, tokens
from accounts.states import Right, Role
from common import clock, files
from common.actor import Actor
from common.hosts import this_host

USERNAME = "admin"
TEAM = "default"
TOKEN_PREFIX = "bootstrap on "  # noqa: S105
"""The host follows, whose home has it."""
TOKEN_DAYS = 365


class Command(BaseCommand):
    help = (
        "Make the first administrator and their token, once: the password goes to HOME/admin-password, the "
        "token to HOME/admin-token, both readable by you alone. Run again, it changes nothing. With --reset "
        "it is the way back in when nobody can sign in and administer any more."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--home", type=Path, default=settings.SLIPWAY_HOME, help="where the files go")
        parser.add_argument(
            "--reset",
            action="store_true",
            help="give the administrator their rights, a new password and a new token, and end a lockout",
        )
        parser.add_argument(
            "--username",
            default=USERNAME,
            help=f"the administrator to make or reset; `{USERNAME}` unless given",
        )

    def handle(self, *args: Any, home: Path, reset: bool, username: str, **options: Any) -> None:
        actor = Actor.system("bootstrap")
        secret_files = (home / "admin-password", home / "admin-token")
        admin = User.objects.filter(username__iexact=username).first()
        if admin and admin.is_machine:
            raise CommandError(f"`{admin}` is a machine account. Name a person, or somebody new.")
        if admin and not reset:
            self._check(admin, secret_files)
            return
        password = secrets.token_urlsafe(18)
        # Files first: a commit without them would lock everyone out, files without a commit are written anew.
        with transaction.atomic():
            text = self._reset(actor, admin, password) if admin else self._create(actor, username, password)
            for file, secret in zip(secret_files, (password, text), strict=True):
                _write_private(file, secret)
        told = f"password in {secret_files[0]}, API token in {secret_files[1]}."
        self.stdout.write(f"Administrator `{admin or username}`: {told}")

    def _check(self, admin: User, secret_files: tuple[Path, Path]) -> None:
        password_file, token_file = secret_files
        again = "To get a new password and token, run: manage.py bootstrap_admin --reset"
        if not token_file.exists() and (elsewhere := self._hosts(admin) - {this_host()}):
            told = f"the token is on the host {', '.join(sorted(elsewhere))}, in `admin-token` of its home."
            self.stdout.write(f"The administrator `{admin}` exists; {told} Nothing is to be done here.")
            return
        if not token_file.exists():
            self.stdout.write(f"The administrator `{admin}` exists, but {token_file} does not. {again}")
            return
        try:
            tokens.use_token(token_file.read_text().strip())
        except InvalidToken as error:
            self.stdout.write(f"The token in {token_file} does not work: {error} {again}")
            return
        if password_file.exists():
            self.stdout.write(f"The administrator `{admin}` exists; nothing to do.")
        else:
            # Its file was deleted, as it should be once the password is changed.
            self.stdout.write(f"The administrator `{admin}` exists; the token in {token_file} works.")

    def _hosts(self, admin: User) -> set[str]:
        """Return the hosts on which tokens were written that still count."""
        names = ApiToken.objects.filter(
            owner=admin, name__startswith=TOKEN_PREFIX, revoked_at=None, expires_at__gt=clock.now()
        ).values_list("name", flat=True)
        return {name.removeprefix(TOKEN_PREFIX) for name in names}

    def _create(self, actor: Actor, username: str, password: str) -> str:
        team = Team.objects.filter(name=TEAM).first()
        if team is None:
            team = teams.create_team(actor=actor, name=TEAM, description="The first team.")
        admin = people.create_user(
            actor=actor,
            username=username,
            password=password,
            is_superuser=True,
            team=team,
            role=Role.ADMIN,
        )
        return self._token(actor, admin)

    def _reset(self, actor: Actor, admin: User, password: str) -> str:
        people.change_user(actor=actor, user=admin, is_active=True, is_superuser=True)
        people.set_password(actor=actor, user=admin, password=password)
        for token in ApiToken.objects.filter(owner=admin, name__startswith=TOKEN_PREFIX, revoked_at=None):
            tokens.revoke_token(actor=actor, token=token, reason="bootstrap_admin --reset")
        return self._token(actor, admin)

    def _token(self, actor: Actor, admin: User) -> str:
        return tokens.create_token(
            actor=actor,
            owner=admin,
            name=f"{TOKEN_PREFIX}{this_host()}",
            scopes=Right.values,
            expires_at=clock.now() + timedelta(days=TOKEN_DAYS),
        ).text


def _write_private(file: Path, secret: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        files.replace(file, f"{secret}\n".encode(), is_secret=True)
    except OSError as error:
        raise CommandError(
            f"Cannot write {file}: {error.strerror}. Choose a directory that you own."
        ) from error
