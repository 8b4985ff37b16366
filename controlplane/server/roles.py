"""What each role runs. A role ends with exit status 2 when something that it needs is missing."""

import os
import sys

from controlplane.env import env, refuse

STOPS_WITHIN_SECONDS = 3
"""So long a web process, asked to stop, lets requests finish."""


def run_web() -> None:
    import uvicorn

    from controlplane.server.missing import refuse_without

    refuse_without("static", "migrations")
    uvicorn.run(
        "controlplane.asgi:application",
        host=env.bind,
        port=env.port,
        http="controlplane.connections:Bounded",
        access_log=False,
        timeout_graceful_shutdown=STOPS_WITHIN_SECONDS,
        proxy_headers=bool(env.trusted_proxies),
        forwarded_allow_ips=list(env.trusted_proxies),
        log_level=env.log_level.lower(),
    )


def run_worker(*, processes: int, health_port: int | None) -> None:
    import django

    from controlplane.server.missing import refuse_without

    refuse_without("migrations")
    # With it SIGTERM is a soft shutdown: tasks get CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT, then go back.
    os.environ.setdefault("REMAP_SIGTERM", "SIGQUIT")
    django.setup()
    from common.watchdog import watched
    from controlplane.server.health_port import open_health_port
    from controlplane.worker import work

    options = ["--pool", "prefork", "--concurrency", str(processes)]
    options += ["--without-gossip", "--without-mingle", "--loglevel", env.log_level]

    def serve() -> int:
        open_health_port("worker", health_port)
        return work(options)

    sys.exit(watched(serve))


def run_sweeper(*, health_port: int | None) -> None:
    import django

    from controlplane.server.missing import refuse_without

    refuse_without("migrations")
    django.setup()
    from django.core.management import call_command

    from controlplane.server.health_port import open_health_port

    call_command("sweep", begin=lambda: open_health_port("sweeper", health_port))


def run_gateway() -> None:
    """Becomes Envoy: whoever supervises this process supervises it."""
    import django

    django.setup()
    from gateway.backends.envoy.bootstrap import command, write_bootstrap
    from gateway.backends.envoy.configured import own_layout
    from gateway.errors import GatewayError

    try:
        layout = own_layout()
        for directory in (layout.run_dir, layout.log_dir):
            directory.mkdir(parents=True, exist_ok=True)
        write_bootstrap(layout)
        words = command(layout)
    except (GatewayError, OSError) as error:
        raise refuse(f"The gateway cannot start: {error}") from None
    os.execv(words[0], words)  # noqa: S606  # no shell is wanted
