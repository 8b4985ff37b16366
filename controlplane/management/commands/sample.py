import signal
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.embedded.sample_cluster import kubeconfig as samples_kubeconfig
from controlplane.env import env, kubeconfig
from controlplane.sample.failure import SampleFailed
from controlplane.sample.optimize import play_optimize
from controlplane.sample.place import (
    OWN_NAMESPACE,
    OwnClusterOptions,
    SampleTarget,
    on_the_samples_cluster,
    on_this_machine,
    on_your_cluster,
)
from controlplane.sample.play import SampleRun, play, play_benchmark, play_tide
from controlplane.sample.stories import OPTIMIZE, TEXT, TIDE, TRANSLATE, VISION
from slipway.client import Client
from slipway.exits import CommandFailed

STORIES = {
    "text": TEXT,
    "vision": VISION,
    "translate": TRANSLATE,
    "benchmark": TEXT,
    "optimize": OPTIMIZE,
    "tide": TIDE,
}


class Command(BaseCommand):
    help = "Play the main job on a real small model against the stack that runs here."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--of", choices=STORIES, default="text", help="a model, or a benchmark of one")
        parser.add_argument(
            "--bad", action="store_true", help="release a bad version, which the judge rolls back"
        )
        parser.add_argument(
            "--kubernetes",
            action="store_true",
            help="on a Kubernetes cluster: that of KUBECONFIG, else one that this machine runs",
        )
        parser.add_argument("--namespace", default=OWN_NAMESPACE, help="with KUBECONFIG: where workers run")
        parser.add_argument("--image", default="", help="with KUBECONFIG: a worker's image, by digest")
        parser.add_argument("--gateway", default="", help="with KUBECONFIG: a Gateway, NAMESPACE/NAME")
        parser.add_argument("--store-url", default="", help="with KUBECONFIG: where pods reach Slipway")

    def handle(self, *args: Any, bad: bool, **options: Any) -> None:
        # As an exception, so that the traffic ends with us.
        signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(SystemExit(0)))
        home = Path(settings.SLIPWAY_HOME)
        token = (home / "admin-token").read_text().strip()
        # With HTTPS on, this machine's own port answers no client without the proxy in front of it.
        console = settings.SLIPWAY_PUBLIC_URL if settings.SECURE_SSL_REDIRECT else settings.SLIPWAY_LOCAL_URL
        client = Client(console, token)
        story = STORIES[options["of"]]
        sample = SampleRun(
            client=client,
            place=partial(self._place, client, home, console, options),
            directory=home / "imports" / story.directory,
            log=home / "logs" / "sample.log",
            say=self._say,
            story=story,
        )
        try:
            if options["of"] == "benchmark":
                play_benchmark(sample)
            elif story is OPTIMIZE:
                play_optimize(sample)
            elif story is TIDE:
                play_tide(sample)
            else:
                play(sample, bad=bad)
        except (SampleFailed, CommandFailed) as failure:
            raise CommandError(str(failure)) from None

    def _place(self, client: Client, home: Path, console: str, options: dict[str, Any]) -> SampleTarget:
        story = STORIES[options["of"]]
        if story is not TEXT or not options["kubernetes"]:
            return on_this_machine(settings.SLIPWAY_GATEWAY_URL, service=story.service)
        if (file := kubeconfig()) is None:
            url = env.local_url(env.sample_gateway_port)
            own = samples_kubeconfig(home)
            return on_the_samples_cluster(client, own, console=console, gateway_url=url, say=self._say)
        wish = OwnClusterOptions(
            kubeconfig=file,
            namespace=options["namespace"],
            image=options["image"],
            gateway=options["gateway"],
            console=console,
            store_url=options["store_url"] or env.public_url,
        )
        return on_your_cluster(client, wish, say=self._say)

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        # Whoever has sent the terminal's output into a file waits for the address as well.
        self.stdout.flush()
