"""Who looks after the Gateway of a fake cluster: what its HTTPRoutes say is told to Envoy, and only what
Envoy has taken is said to be there.
"""

import http.client
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from kube.base import KubernetesClient
from kube.errors import AlreadyExists, NotFound, ObjectChanged
from kube.fake.gateway import envoy
from kube.fake.gateway.envoy import Backend, Object, Places
from kube.resources import GATEWAY_CLASSES, GATEWAYS, HTTP_ROUTES, PODS, SERVICES, Ref

CLASS, CONTROLLER = "fake", "fake.slipway.io/envoy"
GATEWAY, NAMESPACE = "models", "gateways"
FEATURES = (
    "HTTPRoute",
    "HTTPRoutePathRewrite",
    "HTTPRouteRequestMirror",
    "HTTPRouteRequestPercentageMirror",
    "HTTPRouteRequestTimeout",
)
API = "gateway.networking.k8s.io/v1"
ASK_WITHIN_SECONDS = 1.0


class GatewayController:
    """`tick` does what is due. `directory`: of Envoy's files."""

    def __init__(self, client: KubernetesClient, directory: Path, *, port: int, admin_port: int) -> None:
        self._client = client
        self._directory = directory
        self._port = port
        self._admin_port = admin_port
        self._kept: set[Backend] = set()
        """What the routes that Envoy has lead to."""

    def furnish(self) -> None:
        """A class and a Gateway of it, which takes routes of all namespaces."""
        listener = {
            "name": "web",
            "port": self._port,
            "protocol": "HTTP",
            "allowedRoutes": {"namespaces": {"from": "All"}},
        }
        for item in (
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
            {
                "apiVersion": API,
                "kind": "GatewayClass",
                "metadata": {"name": CLASS},
                "spec": {"controllerName": CONTROLLER},
            },
            {
                "apiVersion": API,
                "kind": "Gateway",
                "metadata": {"name": GATEWAY, "namespace": NAMESPACE},
                "spec": {"gatewayClassName": CLASS, "listeners": [listener]},
            },
        ):
            with suppress(AlreadyExists):
                self._client.create(item)
        accepted = [_condition("Accepted", "True", "Accepted", 1)]
        status = {"conditions": accepted, "supportedFeatures": [{"name": one} for one in FEATURES]}
        self._client.patch(Ref(GATEWAY_CLASSES, CLASS), {"status": status}, subresource="status")

    def tick(self) -> None:
        routes = self._client.list(HTTP_ROUTES).items
        attached = [one for one in routes if any(_is_ours(ref, one) for ref in _parents(one))]
        backends = envoy.backends_of(attached)
        places = self._places(backends)
        for backend in backends:
            # Also of a Service that is missing: Envoy takes no cluster whose file is not there.
            pods = places.get(backend, ())
            self._write(envoy.endpoints_file(self._directory, backend), [envoy.endpoints(backend, pods)])
        # A cluster comes before the first route to it, and goes after the last.
        clusters = envoy.clusters(backends | self._kept, self._directory)
        self._write(self._directory / "cds" / "clusters.json", clusters)
        known = self._known_clusters()
        self._tell_gateway(is_programmed=known is not None, attached=len(attached))
        if known is None or not {str(one) for one in backends} <= known:
            return
        wanted = self._write(self._directory / "rds" / "routes.json", [envoy.routes(attached)])
        if self._taken_routes() == wanted:
            self._kept = backends
            for route in attached:
                self._tell_route(route, places)

    def _places(self, backends: set[Backend]) -> Places:
        pods: dict[str, Sequence[Object]] = {}
        found = {}
        for backend in backends:
            try:
                service = self._client.get(Ref(SERVICES, backend.name, backend.namespace))
            except NotFound:
                continue
            if backend.namespace not in pods:
                pods[backend.namespace] = self._client.list(PODS, namespace=backend.namespace).items
            port = next(
                (one for one in service["spec"].get("ports") or () if one["port"] == backend.port), None
            )
            selector = (service["spec"].get("selector") or {}).items()
            found[backend] = tuple(
                (pod["status"]["podIP"], _port_of(pod, port.get("targetPort", backend.port)))
                for pod in pods[backend.namespace]
                if port
                and selector
                and selector <= (pod["metadata"].get("labels") or {}).items()
                and _answers(pod)
            )
        return found

    def _write(self, file: Path, resources: list[Object]) -> str:
        """Its version."""
        wanted = envoy.answer(resources)
        if not file.exists() or json.loads(file.read_text()) != wanted:
            file.parent.mkdir(parents=True, exist_ok=True)
            fresh = file.with_suffix(".tmp")
            fresh.write_text(json.dumps(wanted))
            fresh.replace(file)
        return str(wanted["version_info"])

    def _known_clusters(self) -> set[str] | None:
        """Return the clusters that Envoy can send to; None: it does not answer."""
        found = self._dump("dynamic_active_clusters")
        return None if found is None else {one["cluster"]["name"] for one in found}

    def _taken_routes(self) -> str:
        """Their version; empty: none yet."""
        return next(
            (str(one.get("version_info", "")) for one in self._dump("dynamic_route_configs") or ()), ""
        )

    def _dump(self, resource: str) -> list[Object] | None:
        """Return Envoy's resources; None: it does not answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self._admin_port, timeout=ASK_WITHIN_SECONDS)
        try:
            connection.request("GET", f"/config_dump?resource={resource}")
            return list(json.loads(connection.getresponse().read()).get("configs") or ())
        except (OSError, ValueError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def _tell_gateway(self, *, is_programmed: bool, attached: int) -> None:
        gateway = self._client.get(Ref(GATEWAYS, GATEWAY, NAMESPACE))
        generation = gateway["metadata"]["generation"]
        said = (
            _condition("Programmed", "True", "Programmed", generation)
            if is_programmed
            else _condition("Programmed", "False", "Pending", generation)
        )
        accepted = _condition("Accepted", "True", "Accepted", generation)
        kinds = [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute"}]
        listener = {"name": "web", "attachedRoutes": attached, "supportedKinds": kinds}
        status = {
            "addresses": [{"type": "IPAddress", "value": "127.0.0.1"}],
            "conditions": [accepted, said],
            "listeners": [listener | {"conditions": [accepted, said]}],
        }
        self._tell(Ref(GATEWAYS, GATEWAY, NAMESPACE), gateway.get("status") or {}, status)

    def _tell_route(self, route: Object, places: Places) -> None:
        generation = route["metadata"]["generation"]
        missing = sorted(str(one) for one in envoy.backends_of([route]) - places.keys())
        resolved = (
            _condition(
                "ResolvedRefs", "False", "BackendNotFound", generation, f"no Service {', '.join(missing)}"
            )
            if missing
            else _condition("ResolvedRefs", "True", "ResolvedRefs", generation)
        )
        status = {
            "parents": [
                {
                    "parentRef": ref,
                    "controllerName": CONTROLLER,
                    "conditions": [_condition("Accepted", "True", "Accepted", generation), resolved],
                }
                for ref in _parents(route)
                if _is_ours(ref, route)
            ]
        }
        ref = Ref(HTTP_ROUTES, route["metadata"]["name"], route["metadata"]["namespace"])
        self._tell(ref, route.get("status") or {}, status)

    def _tell(self, ref: Ref, before: Mapping[str, Any], status: Object) -> None:
        if all(_timeless(before.get(key)) == _timeless(value) for key, value in status.items()):
            return
        with suppress(NotFound, ObjectChanged):
            self._client.patch(ref, {"status": status}, subresource="status")


def _parents(route: Object) -> list[Object]:
    return list((route.get("spec") or {}).get("parentRefs") or ())


def _is_ours(ref: Object, route: Object) -> bool:
    namespace = ref.get("namespace", route["metadata"]["namespace"])
    return (ref["name"], namespace) == (GATEWAY, NAMESPACE) and ref.get("sectionName", "web") == "web"


def _answers(pod: Object) -> bool:
    status = pod.get("status") or {}
    is_ready = any(
        one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or ()
    )
    return is_ready and bool(status.get("podIP")) and not pod["metadata"].get("deletionTimestamp")


def _port_of(pod: Object, target: int | str) -> int:
    if isinstance(target, int):
        return target
    ports = (one for container in pod["spec"]["containers"] for one in container.get("ports") or ())
    return next((int(one["containerPort"]) for one in ports if one.get("name") == target), 0)


def _condition(kind: str, status: str, reason: str, generation: int, message: str = "") -> Object:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _timeless(value: Any) -> Any:
    """Without the moments at which conditions changed."""
    if isinstance(value, Mapping):
        return {key: _timeless(one) for key, one in value.items() if key != "lastTransitionTime"}
    return [_timeless(one) for one in value] if isinstance(value, list) else value
