import signal
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.sample.play import Sample, SampleFailed, play
from slipway.client import Client
from slipway.exits import CommandFailed


class Command(BaseCommand):
    help = "Play the main job on a real small model against the stack that runs here."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--bad", action="store_true", help="release a bad version, which the judge rolls back"
        )

    def handle(self, *args: Any, bad: bool, **options: Any) -> None:
        # As an exception, so that the traffic ends with us.
        signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(SystemExit(0)))
        home = Path(settings.SLIPWAY_HOME)
        token = (home / "admin-token").read_text().strip()
        # With HTTPS on, this machine's own port answers no client without the proxy in front of it.
        console = settings.SLIPWAY_PUBLIC_URL if settings.SECURE_SSL_REDIRECT else settings.SLIPWAY_LOCAL_URL
        sample = Sample(
            client=Client(console, token),
            gateway_url=settings.SLIPWAY_GATEWAY_URL,
            directory=home / "imports" / "sample",
            log=home / "logs" / "sample.log",
            say=self._say,
        )
        try:
            play(sample, bad=bad)
        except (SampleFailed, CommandFailed) as failure:
            raise CommandError(str(failure)) from None

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        # Whoever has sent the terminal's output into a file waits for the address as well.
        self.stdout.flush()
