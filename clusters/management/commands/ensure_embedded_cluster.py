from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.utils import timezone

from accounts.errors import InvalidToken
from accounts.services.tokens import use_token
from accounts.states import Right
from clusters.backends.embedded.machine import machine_id, machine_name
from clusters.errors import FleetNameTaken
from clusters.models import AgentToken, Cluster
from clusters.services.clusters import register_cluster
from clusters.services.node_agents import issue_node_token
from clusters.states import ClusterKind
from common import files
from common.actor import Actor
from common.hosts import this_host

CLUSTER = "local"
RENEW_WHEN_LEFT = timedelta(days=60)


class Command(BaseCommand):
    help = (
        f"Register this machine as the cluster `{CLUSTER}`, and write the token by which its agent reports "
        "it to the agent's file. Run again, it changes nothing, or renews a token that runs out; on another "
        "host than the cluster's it does nothing."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        actor = Actor.system("bootstrap")
        try:
            cluster = register_cluster(actor=actor, name=CLUSTER, kind=ClusterKind.EMBEDDED)
        except FleetNameTaken as error:
            raise CommandError(str(error)) from None
        if cluster.host != this_host():
            self.stdout.write(
                f"The cluster {CLUSTER} is run by the host {cluster.host}; this is {this_host()}."
            )
            return
        file = Path(settings.SLIPWAY_NODE_TOKEN_FILE)
        if not _is_good(file, cluster):
            self._renew(actor, cluster, file)

    def _renew(self, actor: Actor, cluster: Cluster, file: Path) -> None:
        try:
            with transaction.atomic():
                issued = issue_node_token(
                    actor=actor, cluster=cluster, node_uid=machine_id(), node_name=machine_name()
                )
                _write_private(file, issued.text)
        except FleetNameTaken as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"Token of this machine: in {file}.")


def _is_good(file: Path, cluster: Cluster) -> bool:
    try:
        token = use_token(file.read_text().strip())
    except (OSError, UnicodeDecodeError, InvalidToken):
        return False
    is_of_this = AgentToken.objects.filter(token=token, cluster=cluster, node_uid=machine_id()).exists()
    return (
        is_of_this
        and Right.FLEET_REPORT in token.rights
        and token.expires_at - timezone.now() > RENEW_WHEN_LEFT
    )


def _write_private(file: Path, secret: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        files.replace(file, f"{secret}\n".encode(), is_secret=True)
    except OSError as error:
        raise CommandError(f"Cannot write {file}: {error.strerror}. Make its directory yours.") from error
