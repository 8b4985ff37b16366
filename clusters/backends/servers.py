"""Servers that speak OpenAI's API by themselves: how each is started and asked, by its own manual. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from serving.worker_command import ENGINES

SERVERS = ("sglang", "tgi", "triton", "openai")
"""Engines that are no workers of ours; `openai`: any other that speaks OpenAI's API."""
SERVED = (*ENGINES, *SERVERS)
"""All that a service may name."""
READ = ("vllm", "sglang", "tgi", "triton")
"""Whose metrics are understood (`serving.scraping`), whatever their service says of them."""


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


_NAMED = ("--served-model-name", "$(MODEL_NAME)")
_HERE = ("--host=0.0.0.0", "--port=$(PORT)")
USUAL: Mapping[str, ModelServer] = {
    # The image's own command is `vllm serve`, or what does the same in older ones.
    "vllm": ModelServer(args=("--model=$(MODEL_DIR)", *_HERE, *_NAMED, "$(MODEL_VERSION)")),
    "sglang": ModelServer(
        command=("python3", "-m", "sglang.launch_server"),
        args=("--model-path=$(MODEL_DIR)", *_HERE, *_NAMED, "--enable-metrics"),
    ),
    "tgi": ModelServer(args=("--model-id=$(MODEL_DIR)", "--hostname=0.0.0.0", "--port=$(PORT)")),
    "triton": ModelServer(health_path="/v2/health/ready", metrics_port=8002),
    "openai": ModelServer(),
}
"""By engine, where its service says nothing else."""
