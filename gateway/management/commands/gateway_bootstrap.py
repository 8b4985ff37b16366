from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from clusters import selectors as fleet
from clusters.errors import ClusterMissing
from gateway.backends.configured import config_of, gateway_of
from gateway.backends.envoy.bootstrap import command, write_bootstrap
from gateway.backends.envoy.configured import layout_from, own_layout
from gateway.backends.envoy.layout import EnvoyFileLayout
from gateway.errors import GatewayError
from gateway.states import ON_A_HOST


class Command(BaseCommand):
    help = (
        "Write the files that an Envoy starts from, and print the command that runs it; routes that exist "
        "already stay."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--cluster",
            help="cluster whose gateway it is; left out: this installation's own Envoy",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            layout = _layout_of(options["cluster"]) if options["cluster"] else own_layout()
            write_bootstrap(layout)
            self.stdout.write(" ".join(command(layout)))
        except (GatewayError, ClusterMissing) as error:
            raise CommandError(str(error)) from None


def _layout_of(cluster: str) -> EnvoyFileLayout:
    gateway = gateway_of(fleet.cluster(cluster))
    if gateway.kind not in ON_A_HOST:
        raise CommandError(f"The gateway of {cluster} is no Envoy by files.")
    return layout_from(config_of(gateway))
