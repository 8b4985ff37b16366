"""Servers that speak OpenAI's API by themselves: how each is started and asked, by its own manual. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from serving.engines.registry import ENGINES


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelServer:
    """A program of an image that speaks OpenAI's API by itself, in place of our worker.

    Its environment has MODEL_DIR, MODEL_NAME and MODEL_VERSION (what requests may name) and PORT; Kubernetes
    puts them where `$(MODEL_DIR)` stands in command and args.
    """

    command: tuple[str, ...] = ()
    """Empty: the image's own."""
    args: tuple[str, ...] = ()
    port: int = 8000
    health_path: str = "/health"
    """Answered with 200 when it takes requests."""
    model_path: str = "/models/version"
    """Where it finds the version's files."""
    metrics_path: str = "/metrics"
    metrics_port: int | None = None
    """None: `port`."""
    metrics: Mapping[str, str] | None = None
    """Names of its metrics by `relay_protocol.METRICS`, where the engine is `openai`; empty: those of
    OpenTelemetry; None: it has none."""


USUAL: Mapping[str, ModelServer] = {
    name: ModelServer(
        command=spec.pod_server.command,
        args=spec.pod_server.args,
        health_path=spec.pod_server.health_path,
        metrics_port=spec.pod_server.metrics_port,
        metrics_path=spec.metrics.path if spec.metrics is not None else "/metrics",
    )
    for name, spec in ENGINES.items()
    if spec.pod_server is not None
}
"""By engine, where its service says nothing else."""
