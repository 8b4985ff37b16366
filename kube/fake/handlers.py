"""Handlers of a container: probes and `preStop`."""

import http.client

from kube.base import Object

PROBE_WITHIN_SECONDS = 2.0


def is_ready(address: str, spec: Object) -> bool:
    probe = (spec.get("readinessProbe") or {}).get("httpGet")
    if probe is None:
        return True
    ports = {one.get("name"): one["containerPort"] for one in spec.get("ports") or ()}
    connection = http.client.HTTPConnection(
        address, ports.get(probe["port"], probe["port"]), timeout=PROBE_WITHIN_SECONDS
    )
    try:
        connection.request("GET", probe.get("path", "/"))
        return connection.getresponse().status < 400
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def pre_stop_seconds(container: Object) -> float:
    """Seconds that its `preStop` takes; of the handlers only `sleep` is known."""
    handler = (container.get("lifecycle") or {}).get("preStop") or {}
    return float((handler.get("sleep") or {}).get("seconds", 0))
