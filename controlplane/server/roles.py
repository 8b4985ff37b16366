"""What each role runs. A role ends with exit status 2 when something that it needs is missing."""

import logging
import os
import socket
import sys
from contextlib import suppress

from common.logs.context import act_as
from common.tracing import trace
from controlplane.env import env, otlp_traces
from controlplane.environment import VERSION
from controlplane.garbage import set_up_django


def _begin(role: str) -> None:
    """Begin a role: its logs and traces say who it is."""
    act_as(role)
    logging.captureWarnings(True)
    if otlp_traces():
        trace(
            {
                "service.name": os.environ.get("OTEL_SERVICE_NAME") or f"slipway-{role}",
                "service.version": VERSION,
                "host.name": socket.gethostname(),
            }
        )


def run_web() -> None:
    _begin("web")
    import uvicorn

    from controlplane.server.drain import FINISHES_WITHIN_SECONDS, DrainingServer
    from controlplane.server.missing import (
        missing_migrations,
        missing_static_files,
        refuse_if,
        store_not_shared,
    )

    refuse_if(missing_static_files, missing_migrations, store_not_shared)
    from common import clock

    clock.keep_measuring()
    config = uvicorn.Config(
        "controlplane.asgi:application",
        host=env.bind,
        port=env.port,
        http="controlplane.connections:BoundedProtocol",
        ws="controlplane.shared_frames:SharedFrameProtocol",
        access_log=False,
        timeout_graceful_shutdown=FINISHES_WITHIN_SECONDS,
        proxy_headers=bool(env.trusted_proxies),
        forwarded_allow_ips=list(env.trusted_proxies),
        log_level=env.log_level.lower(),
        # Its lines go where ours go.
        log_config=None,
    )
    server = DrainingServer(config, drain_seconds=env.drain_seconds)
    with suppress(KeyboardInterrupt):
        server.run()
    if not server.started:
        raise SystemExit(3)


def run_worker(*, processes: int, health_port: int | None) -> None:
    _begin("worker")
    from controlplane.server.missing import missing_migrations, refuse_if, store_not_shared

    refuse_if(missing_migrations, store_not_shared)
    # With it SIGTERM is a soft shutdown: tasks get CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT, then go back.
    os.environ.setdefault("REMAP_SIGTERM", "SIGQUIT")
    set_up_django()
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
    _begin("sweeper")
    from controlplane.server.missing import missing_migrations, refuse_if, store_not_shared

    refuse_if(missing_migrations, store_not_shared)
    set_up_django()
    from django.core.management import call_command

    from clusters.watching import watch_clusters
    from controlplane.server.health_port import open_health_port

    def begin() -> None:
        open_health_port("sweeper", health_port)
        watch_clusters()

    call_command("sweep", begin=begin)
