"""A TrafficBackend that tells a Gateway of a Kubernetes cluster by HTTPRoutes. All it knows lies in there."""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from time import monotonic, sleep

from clusters.backends.kubernetes.manifests import DEPLOYMENT
from clusters.backends.kubernetes.pods import PORT, http_port
from common.fence import Fence
from gateway.backends import checks
from gateway.backends.base import GatewayClass, GatewayHealth
from gateway.backends.gateway_api import abilities, ability_writes, documents
from gateway.backends.gateway_api.conditions import TAKEN, RouteAcceptance, said_of_gateway, said_of_route
from gateway.backends.gateway_api.documents import Document, is_own
from gateway.backends.gateway_api.errors import translated_errors
from gateway.backends.gateway_api.features import cannot
from gateway.backends.gateway_api.parent import ParentGateway, address_of, parent_of
from gateway.backends.gateway_api.pools import ensure_pool, has_pool, remove_unused
from gateway.backends.gateway_api.rules import Places, rivals
from gateway.backends.gateway_api.settings import GatewayApiSettings
from gateway.errors import GatewayError, GatewayUnreachable, InvalidEndpoint, InvalidRoute, StaleRouteFence
from gateway.routes import AbilitySpec, NamedService, RouteSpec, WorkerEndpoint
from kube.base import KubernetesClient, Object
from kube.errors import AlreadyExists, NotFound, ObjectChanged
from kube.resources import HTTP_ROUTES, PODS, SERVICES, Ref

logger = logging.getLogger(__name__)

ATTEMPTS = 5
TAKEN_WITHIN_SECONDS = 6.0
"""A step of a release has 20 s in all, and asks again."""
LOOK_EVERY_SECONDS = 0.1
SAME_LOOK = timedelta(seconds=2)
PARENT_KEPT = timedelta(minutes=1)
"""For comparing a route with its wish: each look of the reconciler reads the Gateway anew afterwards."""
TOMBSTONE_LASTS = timedelta(days=1)
"""Far longer than any lease of the reconcile kernel."""


class GatewayApi:
    """A `TrafficBackend`. The order of every write: read the HTTPRoute, refuse who is late, put our rules
    among those of others, write it under the version that was read, wait for the controller's word on it.
    """

    def __init__(
        self,
        client: KubernetesClient,
        settings: GatewayApiSettings,
        *,
        taken_within_seconds: float = TAKEN_WITHIN_SECONDS,
        look_every_seconds: float = LOOK_EVERY_SECONDS,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client = client
        self._settings = settings
        self._taken_within_seconds = taken_within_seconds
        self._look_every_seconds = look_every_seconds
        self._clock = clock
        self._last_parent: tuple[datetime, ParentGateway] | None = None

    def set_route(self, spec: RouteSpec, *, fence: Fence) -> None:
        checks.check_spec(spec)
        with translated_errors(spec.name):
            parent = self._parent()
            parent.refuse_lacking()
            asked = [{0: "", 100: "mirror"}.get(spec.mirror_percent, "mirror_percent")]
            asked += [spec.cohort.needs] if spec.cohort else []
            known = cannot(parent.class_name, parent.features)
            for one in asked:
                if why := known.get(one):
                    raise InvalidRoute(why)
            if picker := self._settings.inference_pools:
                # A route to what is not there answers 500.
                for place in self._places(spec).values():
                    ensure_pool(self._client, place, picker)
            before, written = self._write(
                spec.name, fence, lambda found: self._with(found, spec, fence, parent)
            )
            said = self._await_word(written, spec.name, fence, parent)
            if said.what == "refused":
                self._put_back(before, spec, fence, parent)
                raise InvalidRoute(f"The gateway does not take the route {spec.name}. {said.why}")
        if said.what == "waiting":
            raise GatewayUnreachable(
                f"The gateway has not taken the route {spec.name} within {self._taken_within_seconds:g} s. "
                f"{said.why}"
            )

    def set_target(
        self, target: str, to: Sequence[WorkerEndpoint] | NamedService, *, observed_at: datetime
    ) -> None:
        """Nothing is told: a target is the Service of its name, which follows its pods by itself. A worker
        that ends takes requests for a while after it has left its Service."""
        place = checks.check_place(target, to, observed_at=observed_at)
        if not isinstance(place, NamedService):
            return
        if place.name != target or place.namespace not in self._settings.all_namespaces:
            allowed = " or ".join(self._settings.all_namespaces)
            raise InvalidEndpoint(
                f"Target {target}: a gateway of this kind sends to the Service {target} in the namespace "
                f"{allowed}, and not to {place}."
            )

    def set_abilities(self, specs: Sequence[AbilitySpec], *, observed_at: datetime) -> None:
        checks.check_abilities(specs, observed_at=observed_at)
        with translated_errors():
            wanted = [made for spec in specs if (made := self._with_ability(spec, observed_at))]
            ability_writes.remove_others(self._client, self._settings, specs)
            ability_writes.await_taken(
                self._client,
                [ability_writes.write(self._client, made) for made in wanted],
                self._parent,
                self._settings,
                within_seconds=self._taken_within_seconds,
                look_every_seconds=self._look_every_seconds,
            )

    def _with_ability(self, spec: AbilitySpec, observed_at: datetime) -> Document | None:
        """Return its HTTPRoute; None where no route of its services is known. Raises InvalidRoute."""
        routes = {}
        for member in spec.members:
            found = self._read(member.service)
            record = documents.record_of(found, member.service) if found else None
            if record is not None and record.spec is not None:
                routes[member.service] = record.spec
        shares = abilities.weights(spec, routes)
        if not shares:
            return None
        return abilities.route_of(
            spec,
            shares,
            {target.name: self._place(target.name) for target in shares},
            all_paths=all(one.all_paths for one in routes.values()),
            timeout=self._parent(within=SAME_LOOK).timeout,
            observed_at=observed_at,
            settings=self._settings,
        )

    def remove_route(self, route: str, *, fence: Fence) -> None:
        def without(found: Document | None) -> Document:
            return documents.without_route(
                found, route, fence=fence, now=self._clock(), settings=self._settings
            )

        if not checks.NAME.fullmatch(route):
            return
        with translated_errors(route):
            found = self._read(route)
            # Of what others have, only rules of ours are touched; where none can be, there is nothing to do.
            if (found is None) if self._is_theirs(route) else (found is not None and not is_own(found)):
                return
            self._write(route, fence, without)

    def refresh(self) -> None:
        with translated_errors():
            routes = self._client.list(
                HTTP_ROUTES,
                namespace=self._settings.namespace,
                labels=f"{documents.MANAGED_BY}=slipway",
            ).items
            if self._settings.inference_pools:
                self._remove_pools(routes)
            for found in routes:
                records = documents.records_of(found)
                if records and all(self._is_over(one) for one in records):
                    metadata = found["metadata"]
                    with suppress(NotFound, ObjectChanged):
                        self._client.delete(
                            Ref(HTTP_ROUTES, metadata["name"], metadata["namespace"]),
                            uid=metadata["uid"],
                            version=metadata["resourceVersion"],
                        )

    def desired_route(self, route: str) -> RouteSpec | None:
        """Return the desired route; None also where somebody has changed our rules: then they are set
        again.
        """
        if not checks.NAME.fullmatch(route):
            return None
        with translated_errors():
            found = self._read(route)
            record = documents.record_of(found, route) if found else None
            if found is None or record is None or record.spec is None:
                return None
            parent = self._parent(within=PARENT_KEPT)
            try:
                wanted = self._with(found, record.spec, record.fence, parent)
            except InvalidRoute:
                return None
            if self._settings.inference_pools and not all(
                has_pool(self._client, place) for place in self._places(record.spec).values()
            ):
                return None
            return None if documents.change(found, wanted) else record.spec

    def ready(self, target: str) -> frozenset[WorkerEndpoint | NamedService]:
        """Pods behind its Service that Kubernetes calls ready: the gateway itself cannot be asked."""
        with translated_errors():
            pods = [
                pod
                for namespace in self._settings.all_namespaces
                for pod in self._client.list(PODS, namespace=namespace, labels=f"{DEPLOYMENT}={target}").items
            ]
        return frozenset(
            WorkerEndpoint(pod["status"]["podIP"], http_port(pod)) for pod in pods if _takes_requests(pod)
        )

    def cannot(self) -> Mapping[str, str]:
        with translated_errors():
            parent = self._parent(within=SAME_LOOK)
        return cannot(parent.class_name, parent.features)

    def lacking(self) -> str:
        with translated_errors():
            return self._parent(within=SAME_LOOK).lacking

    def gateway_class(self) -> GatewayClass | None:
        with translated_errors():
            parent = self._parent(within=SAME_LOOK)
        return GatewayClass(parent.class_name, parent.said)

    def health(self) -> GatewayHealth:
        try:
            with translated_errors():
                parent = self._parent()
        except GatewayError as error:
            return GatewayHealth(False, str(error))
        if why := parent.lacking:
            return GatewayHealth(False, why)
        said = said_of_gateway(parent.gateway, self._settings)
        if said != TAKEN:
            return GatewayHealth(False, said.why)
        notes = "" if parent.timeout else f" Its class {parent.class_name} sets no time limits of requests."
        return GatewayHealth(
            True,
            f"The Gateway {self._settings.gateway} is programmed.{notes}",
            address_of(parent.gateway, self._settings),
        )

    def _parent(self, *, within: timedelta = timedelta(0)) -> ParentGateway:
        """The Gateway and what its class can, read now, or `within` that time."""
        now = self._clock()
        if self._last_parent is None or now - self._last_parent[0] >= within:
            self._last_parent = now, parent_of(self._client, self._settings)
        return self._last_parent[1]

    def _remove_pools(self, routes: Sequence[Object]) -> None:
        theirs = [self._read(service) for service, _ in self._settings.http_routes]
        records = [
            record for one in (*routes, *theirs) if one is not None for record in documents.records_of(one)
        ]
        used = {target.name for one in records if one.spec is not None for target in one.spec.targets}
        for namespace in self._settings.all_namespaces:
            remove_unused(self._client, namespace, used=used, now=self._clock())

    def _is_over(self, record: documents.RouteRecord) -> bool:
        return record.removed_at is not None and self._clock() - record.removed_at > TOMBSTONE_LASTS

    def _ref(self, route: str) -> Ref:
        name = dict(self._settings.http_routes).get(route) or documents.object_name(route)
        return Ref(HTTP_ROUTES, name, self._settings.namespace)

    def _read(self, route: str) -> Document | None:
        try:
            return self._client.get(self._ref(route))
        except NotFound:
            return None

    def _is_theirs(self, route: str) -> bool:
        """Its rules belong into an HTTPRoute of somebody else."""
        return route in dict(self._settings.http_routes)

    def _check_ours(self, spec: RouteSpec, found: Document | None) -> None:
        """Raises InvalidRoute where our rules may not, or would not, be."""
        route = spec.name
        ref = self._ref(route)
        if not self._is_theirs(route):
            if found is not None and not is_own(found):
                raise InvalidRoute(
                    f"The namespace {ref.namespace} has an HTTPRoute {ref.name} that is not Slipway's. "
                    "Rename it, or name it in the setting http_routes."
                )
        elif found is None:
            raise InvalidRoute(
                f"There is no HTTPRoute {ref.namespace}/{ref.name}, where the rules of {route} belong: make "
                "it, or fix the setting http_routes."
            )
        elif not documents.names_parent(found, self._settings):
            raise InvalidRoute(
                f"The HTTPRoute {ref.namespace}/{ref.name} does not name the Gateway "
                f"{self._settings.parent_namespace}/{self._settings.gateway} in its parentRefs."
            )
        elif rival := rivals((found.get("spec") or {}).get("rules") or [], route, all_paths=spec.all_paths):
            raise InvalidRoute(
                f"The rule {rival[0]} of the HTTPRoute matches the requests of {route}, too: remove it, or "
                "take its name away, and it becomes Slipway's."
            )

    def _with(self, found: Document | None, spec: RouteSpec, fence: Fence, parent: ParentGateway) -> Document:
        self._check_ours(spec, found)
        return documents.with_route(
            found,
            spec,
            fence=fence,
            places=self._places(spec),
            timeout=parent.timeout,
            settings=self._settings,
        )

    def _places(self, spec: RouteSpec) -> Places:
        return {target.name: self._place(target.name) for target in spec.targets}

    def _place(self, target: str) -> NamedService:
        home, *others = self._settings.all_namespaces
        for namespace in others:
            with suppress(NotFound):
                self._client.get(Ref(SERVICES, target, namespace))
                return NamedService(namespace, target, PORT)
        return NamedService(home, target, PORT)

    def _write(
        self, route: str, fence: Fence, after: Callable[[Document | None], Document]
    ) -> tuple[Document | None, Document]:
        """Write the document and return it as it was and as it is. Raises StaleRouteFence, InvalidRoute,
        GatewayUnreachable.
        """
        for _ in range(ATTEMPTS):
            found = self._read(route)
            if found is not None:
                self._refuse_late(found, route, fence)
            wanted = after(found)
            try:
                if found is None:
                    return None, self._client.create(wanted)
                patch = documents.change(found, wanted)
                return found, self._client.patch(self._ref(route), patch) if patch else found
            except (AlreadyExists, ObjectChanged, NotFound):
                continue
        raise GatewayUnreachable(f"The route {route} is changed by others faster than it can be written.")

    def _refuse_late(self, found: Object, route: str, fence: Fence) -> None:
        record = documents.record_of(found, route)
        checks.refuse_stale(route, last=record.fence if record else None, fence=fence)

    def _await_word(
        self, written: Document, route: str, fence: Fence, parent: ParentGateway
    ) -> RouteAcceptance:
        deadline = monotonic() + self._taken_within_seconds
        said = RouteAcceptance("waiting")
        while True:
            found = self._read(route)
            if found is None or found["metadata"]["uid"] != written["metadata"]["uid"]:
                return RouteAcceptance("waiting", "Somebody has removed it meanwhile.")
            self._refuse_late(found, route, fence)
            said = said_of_route(found, parent.gateway, self._settings, controller=parent.controller)
            if said.what != "waiting" or monotonic() >= deadline:
                return said
            sleep(self._look_every_seconds)
            parent = self._parent()

    def _put_back(
        self, before: Document | None, refused: RouteSpec, fence: Fence, parent: ParentGateway
    ) -> None:
        """The gateway goes on with what it had; only the fence stays."""
        record = documents.record_of(before, refused.name) if before is not None else None
        former = record.spec if record else None

        def after(found: Document | None) -> Document:
            if former is not None:
                return self._with(found, former, fence, parent)
            return documents.without_route(
                found, refused.name, fence=fence, now=self._clock(), settings=self._settings
            )

        with suppress(StaleRouteFence):
            self._write(refused.name, fence, after)


def _takes_requests(pod: Object) -> bool:
    status = pod.get("status") or {}
    if "deletionTimestamp" in pod["metadata"] or not status.get("podIP"):
        return False
    return any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or ())
