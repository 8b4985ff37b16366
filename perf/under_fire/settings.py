"""Those of `bin/up`, with the world outside of `perf.under_fire.outside` and a broker that loses messages."""

from kombu.transport import TRANSPORT_ALIASES

from controlplane.settings.embedded import *  # noqa: F403

SLIPWAY_GATEWAY_BACKENDS = {"envoy": "perf.under_fire.outside"}
SLIPWAY_CLUSTER_BACKENDS = {"embedded": "perf.under_fire.outside"}
TRANSPORT_ALIASES["redis"] = "perf.under_fire.lossy:LossyTransport"
