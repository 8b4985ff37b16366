"""This machine as a cluster: model workers as programs of the supervisord that runs the whole stack."""

from django.conf import settings

from clusters.backends.embedded.backend import EmbeddedCluster

__all__ = ["EmbeddedCluster", "from_settings"]


def from_settings() -> EmbeddedCluster:
    return EmbeddedCluster(
        run_dir=settings.SLIPWAY_RUN_DIR,
        log_dir=settings.SLIPWAY_LOG_DIR,
        ports=settings.SLIPWAY_WORKER_PORTS,
        directory=settings.BASE_DIR,
    )
