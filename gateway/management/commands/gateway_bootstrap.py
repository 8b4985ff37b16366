from typing import Any

from django.core.management.base import BaseCommand, CommandError

from gateway.backends.envoy import command, layout_from_settings, write_bootstrap
from gateway.errors import GatewayError


class Command(BaseCommand):
    help = "Write the files that the embedded Envoy starts from; routes that exist already stay."

    def handle(self, *args: Any, **options: Any) -> None:
        layout = layout_from_settings()
        try:
            write_bootstrap(layout)
            self.stdout.write(" ".join(command(layout)))
        except GatewayError as error:
            raise CommandError(str(error)) from None
