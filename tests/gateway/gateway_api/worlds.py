"""A cluster with a Gateway, its controller, and a data plane that does what its routes say.

The controller is honest: it programs a route a moment after it was written, and says so with the generation
that it has seen. What only a real data plane can show (retries, streams, connections) is not here.
"""

import json
import random
import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from clusters.backends.kubernetes.manifests import DEPLOYMENT
from gateway.backends.gateway_api.backend import GatewayApi
from gateway.backends.gateway_api.settings import GatewayApiSettings
from kube.client import KubeClient
from kube.errors import NotFound
from kube.fake.gateway_api import gateway_api
from kube.fake.server import FakeApiServer
from kube.fake.transport import FakeTransport
from kube.fake.wire import ADMIN, ApiResponse
from kube.resources import GATEWAY_CLASSES, GATEWAYS, HTTP_ROUTES, SERVICES, Ref, Resource
from kube.transport import ApiCall
from tests.kube.accounts import grant

CONTROLLER = "lab.example/gateway"
FEATURES = (
    "HTTPRoute",
    "HTTPRoutePathRewrite",
    "HTTPRouteRequestTimeout",
    "HTTPRouteRequestMirror",
    "HTTPRouteRequestPercentageMirror",
)
SETTINGS = GatewayApiSettings(gateway="models", hostnames=("models.example",))
WITHIN_SECONDS = 0.3


@dataclass
class Controller:
    """`looks_late`: how many requests to the API pass before it sees a route that was written."""

    client: KubeClient
    looks_late: int = 1
    runs: bool = True
    refuses: Callable[[dict[str, Any]], str] = lambda _: ""
    """The reason why it does not accept a route; empty: it does."""
    programmed: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Routes as the data plane has them, by name."""
    _seen: dict[str, int] = field(default_factory=dict)

    def tick(self) -> None:
        if not self.runs:
            return
        routes = self.client.list(HTTP_ROUTES).items
        for gone in set(self.programmed) - {one["metadata"]["name"] for one in routes}:
            del self.programmed[gone]
        for route in routes:
            name, generation = route["metadata"]["name"], route["metadata"]["generation"]
            key = f"{name} {route['metadata']['uid']} {generation}"
            self._seen[key] = self._seen.get(key, 0) + 1
            if self._seen[key] == self.looks_late + 1 or (
                self._seen[key] > self.looks_late and self._is_due(route)
            ):
                self._program(route, generation)

    def _is_due(self, route: dict[str, Any]) -> bool:
        """Services come and go."""
        said = [
            one for parent in (route.get("status") or {}).get("parents") or () for one in parent["conditions"]
        ]
        return any(one["reason"] == "BackendNotFound" for one in said) and not self._missing(route)

    def _program(self, route: dict[str, Any], generation: int) -> None:
        name = route["metadata"]["name"]
        parents = route["spec"].get("parentRefs") or []
        reason, missing = self.refuses(route), self._missing(route)
        if not parents:
            self.programmed.pop(name, None)
        elif not reason:
            self.programmed[name] = deepcopy(route)
        accepted = ("False", reason) if reason else ("True", "Accepted")
        resolved = ("False", "BackendNotFound") if missing else ("True", "ResolvedRefs")
        status = {
            "parents": [
                {
                    "parentRef": parent,
                    "controllerName": CONTROLLER,
                    "conditions": [
                        condition("Accepted", *accepted, generation),
                        condition("ResolvedRefs", *resolved, generation),
                    ],
                }
                for parent in parents
            ]
        }
        self.client.patch(ref_of(route), {"status": status}, subresource="status")

    def _missing(self, route: dict[str, Any]) -> bool:
        refs = [ref for rule in route["spec"]["rules"] for ref in rule.get("backendRefs") or ()]
        here = route["metadata"]["namespace"]
        return any(not exists(self.client, SERVICES, ref["name"], ref.get("namespace", here)) for ref in refs)


class Cluster:
    """An API server with a Gateway, and as many control planes that write to it as a test wants."""

    def __init__(
        self,
        settings: GatewayApiSettings = SETTINGS,
        *,
        features: tuple[str, ...] = FEATURES,
        rules_have_names: bool = True,
    ) -> None:
        self.settings = settings
        self.server = FakeApiServer()
        for kind in gateway_api(rules_have_names=rules_have_names):
            self.server.add_kind(kind)
        for name in (*settings.all_namespaces, "infra"):
            self.server.make("namespaces", {"metadata": {"name": name}})
        self.client = KubeClient(FakeTransport(self.server, user=ADMIN), field_manager="somebody")
        self.controller = Controller(self.client)
        self.client.create(
            {
                "apiVersion": "gateway.networking.k8s.io/v1",
                "kind": "GatewayClass",
                "metadata": {"name": "lab"},
                "spec": {"controllerName": CONTROLLER},
            }
        )
        said = {"supportedFeatures": [{"name": one} for one in features]}
        self.client.patch(Ref(GATEWAY_CLASSES, "lab"), {"status": said}, subresource="status")
        self.client.create(
            {
                "apiVersion": "gateway.networking.k8s.io/v1",
                "kind": "Gateway",
                "metadata": {"name": settings.gateway, "namespace": settings.parent_namespace},
                "spec": {
                    "gatewayClassName": "lab",
                    "listeners": [{"name": "web", "port": 80, "protocol": "HTTP"}],
                },
            }
        )
        self.say_programmed("True")
        self.gateway, self.transport = self.writer()

    def writer(self) -> tuple[GatewayApi, FakeTransport]:
        user = grant(self.server, *self.settings.all_namespaces, to=self.settings.namespace)
        transport = FakeTransport(self.server, user=user)

        def controller_looks(_: ApiCall) -> ApiResponse | None:
            self.controller.tick()
            return None

        transport.faults.append(controller_looks)
        client = KubeClient(transport)
        return GatewayApi(
            client, self.settings, taken_within_seconds=WITHIN_SECONDS, look_every_seconds=0.001
        ), transport

    def say_programmed(self, status: str) -> None:
        one = condition("Programmed", status, "Programmed" if status == "True" else "NoResources", 1)
        said = {"conditions": [one], "listeners": [{"name": "web", "attachedRoutes": 0, "conditions": [one]}]}
        ref = Ref(GATEWAYS, self.settings.gateway, self.settings.parent_namespace)
        self.client.patch(ref, {"status": said}, subresource="status")

    def run_service(self, name: str, *, namespace: str = "", pods: int = 1) -> None:
        namespace = namespace or self.settings.namespace
        metadata = {"name": name, "namespace": namespace}
        if not exists(self.client, SERVICES, name, namespace):
            self.client.create(
                {
                    "apiVersion": "v1",
                    "kind": "Service",
                    "metadata": metadata,
                    "spec": {"ports": [{"port": 8000}], "selector": {DEPLOYMENT: name}},
                }
            )
        for number in range(pods):
            self.server.plant(
                "pods",
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {
                        **metadata,
                        "name": f"{name}-{number}",
                        "uid": f"{name}-{number}",
                        "labels": {DEPLOYMENT: name},
                    },
                    "status": {
                        "podIP": f"10.1.0.{number + 1}",
                        "conditions": [{"type": "Ready", "status": "True"}],
                    },
                },
            )

    def routes(self) -> list[dict[str, Any]]:
        return list(self.client.list(HTTP_ROUTES).items)

    def route(self, name: str = "slipway-chat") -> dict[str, Any]:
        return self.client.get(Ref(HTTP_ROUTES, name, self.settings.namespace))

    def weights(self, name: str = "slipway-chat", rule: str = "slipway.chat") -> dict[str, int]:
        """Return the split as the data plane has it."""
        found = self.controller.programmed[name]
        (split,) = [one for one in found["spec"]["rules"] if one.get("name") == rule]
        return {ref["name"]: ref["weight"] for ref in split["backendRefs"]}


class DataPlane:
    """Sends requests as the programmed routes say. `ignores_weights`: every backend the same."""

    def __init__(self, controller: Controller, *, seed: int = 7) -> None:
        self._controller = controller
        self._random = random.Random(seed)
        self.ignores_weights = False

    def ask(self, path: str, headers: Mapping[str, str]) -> tuple[str, str, dict[str, str]] | None:
        """The Service that gets the request, and its path and headers there; None: no route (404)."""
        best: tuple[tuple[int, int], dict[str, Any]] | None = None
        for route in self._controller.programmed.values():
            for rule in route["spec"]["rules"]:
                for match in rule.get("matches") or ():
                    if _matches(match, path, headers):
                        rank = (len(match["path"]["value"]), len(match.get("headers") or ()))
                        if best is None or rank > best[0]:
                            best = rank, rule
        if best is None:
            return None
        return self._forward(best[1], path, dict(headers))

    def _forward(
        self, rule: dict[str, Any], path: str, headers: dict[str, str]
    ) -> tuple[str, str, dict[str, str]]:
        for one in rule.get("filters") or ():
            if one["type"] == "URLRewrite":
                prefix = rule["matches"][0]["path"]["value"]
                path = one["urlRewrite"]["path"]["replacePrefixMatch"].rstrip("/") + path.removeprefix(prefix)
            elif one["type"] == "RequestHeaderModifier":
                change = one["requestHeaderModifier"]
                headers = {key: text for key, text in headers.items() if key not in change.get("remove", ())}
                headers |= {header["name"]: header["value"] for header in change.get("set", ())}
        refs = rule.get("backendRefs") or ()
        weights = [1 if self.ignores_weights else ref["weight"] for ref in refs]
        chosen = self._random.choices([ref["name"] for ref in refs], weights)[0] if any(weights) else ""
        return chosen, path, headers


def _matches(match: Mapping[str, Any], path: str, headers: Mapping[str, str]) -> bool:
    prefix = match["path"]["value"].rstrip("/")
    if path != prefix and not path.startswith(f"{prefix}/"):
        return False
    return all(_has(headers, one) for one in match.get("headers") or ())


def _has(headers: Mapping[str, str], match: Mapping[str, Any]) -> bool:
    value = headers.get(match["name"])
    if match.get("type") == "RegularExpression":
        return value is not None and re.fullmatch(match["value"], value) is not None
    return value == match["value"]


def condition(name: str, status: str, reason: str, generation: int) -> dict[str, Any]:
    return {
        "type": name,
        "status": status,
        "reason": reason,
        "message": "",
        "observedGeneration": generation,
        "lastTransitionTime": "2030-01-01T00:00:00Z",
    }


def ref_of(route: Mapping[str, Any]) -> Ref:
    return Ref(HTTP_ROUTES, route["metadata"]["name"], route["metadata"]["namespace"])


def exists(client: KubeClient, resource: Resource, name: str, namespace: str) -> bool:
    try:
        client.get(Ref(resource, name, namespace))
    except NotFound:
        return False
    return True


def their_rule(**more: Any) -> dict[str, Any]:
    """Return a user's rule that has nothing to do with ours."""
    return {
        "name": "docs",
        "matches": [{"path": {"type": "PathPrefix", "value": "/docs"}}],
        "filters": [
            {
                "type": "ResponseHeaderModifier",
                "responseHeaderModifier": {"set": [{"name": "x", "value": "y"}]},
            }
        ],
        "backendRefs": [{"group": "", "kind": "Service", "name": "docs", "port": 80, "weight": 1}],
        **more,
    }


def text_of(route: Mapping[str, Any]) -> str:
    return json.dumps(route, sort_keys=True)
