"""`manage.py create_directory_token`: the bearer token of the identity provider's SCIM client, on stdout."""

from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from accounts.models import User
from accounts.services.people import create_machine
from accounts.services.tokens import create_token
from accounts.states import AccountKind, Right
from common import clock
from common.actor import Actor


class Command(BaseCommand):
    help = "Create a token for SCIM, of an account that is no person's. It is shown once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--username", default="scim", help="Account of the directory.")
        parser.add_argument("--days", type=int, default=365, help="That the token lives.")

    def handle(self, *, username: str, days: int, **_: Any) -> None:
        actor = Actor.system("create_directory_token")
        account = User.objects.filter(username=username).first()
        if account is None:
            account = create_machine(actor=actor, username=username, kind=AccountKind.DIRECTORY)
        if account.kind != AccountKind.DIRECTORY:
            raise CommandError(f"{username} is no account of a directory. Give another --username.")
        issued = create_token(
            actor=actor,
            name="SCIM",
            scopes=[Right.PEOPLE_PROVISION],
            expires_at=clock.now() + timedelta(days=days),
            owner=account,
        )
        self.stdout.write(issued.text)
