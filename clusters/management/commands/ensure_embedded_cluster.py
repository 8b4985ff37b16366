from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.utils import timezone

from accounts.errors import BadToken
from accounts.models import ApiToken, User
from accounts.services.people import create_machine
from accounts.services.tokens import create_token, revoke_token, use_token
from accounts.states import Right
from clusters.errors import NameTaken
from clusters.services.clusters import register_cluster
from clusters.states import ClusterKind
from common import files
from common.actor import Actor

CLUSTER = "local"
ROBOT = "workers"
TOKEN_NAME = "heartbeats"  # noqa: S105
TOKEN_LIFE = timedelta(days=365)
RENEW_WHEN_LEFT = timedelta(days=60)


class Command(BaseCommand):
    help = (
        f"Register this machine as the cluster `{CLUSTER}`, and write the token by which its workers report "
        "to the file that they are given. Run again, it changes nothing, or renews a token that runs out."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        actor = Actor.system("bootstrap")
        try:
            register_cluster(actor=actor, name=CLUSTER, kind=ClusterKind.EMBEDDED)
        except NameTaken as error:
            raise CommandError(str(error)) from None
        file = Path(settings.SLIPWAY_WORKER_TOKEN_FILE)
        if not _is_good(file):
            self._renew(actor, file)

    def _renew(self, actor: Actor, file: Path) -> None:
        with transaction.atomic():
            robot = User.objects.filter(username=ROBOT).first()
            if robot is None:
                robot = create_machine(actor=actor, username=ROBOT, label="Model workers")
            elif not robot.is_machine:
                raise CommandError(
                    f"The name {ROBOT} is that of the account by which workers report, but a person has it. "
                    "Rename that person, then start again."
                )
            old = list(ApiToken.objects.filter(owner=robot, name=TOKEN_NAME, revoked_at=None))
            issued = create_token(
                actor=actor,
                owner=robot,
                name=TOKEN_NAME,
                scopes=[Right.FLEET_REPORT],
                expires_at=timezone.now() + TOKEN_LIFE,
            )
            for token in old:
                revoke_token(actor=actor, token=token, reason="renewed")
            _write_private(file, issued.text)
        self.stdout.write(f"Token of the workers: in {file}.")


def _is_good(file: Path) -> bool:
    try:
        token = use_token(file.read_text().strip())
    except (OSError, UnicodeDecodeError, BadToken):
        return False
    return Right.FLEET_REPORT in token.rights and token.expires_at - timezone.now() > RENEW_WHEN_LEFT


def _write_private(file: Path, secret: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        files.replace(file, f"{secret}\n".encode(), is_secret=True)
    except OSError as error:
        raise CommandError(f"Cannot write {file}: {error.strerror}. Make its directory yours.") from error
