"""Cards that NVIDIA's DRA driver offers whole, and maybe in MIG instances (resource.k8s.io/v1).

A driver publishes each instance that a card could have as a device which consumes counters of the card, and
makes the instance when a pod's claim was allocated to it. Names are those of the driver
(https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from clusters.backends.devices import ClaimedPart, ObservedCard
from clusters.backends.kubernetes.device_claims import DRIVER, claim_template
from clusters.backends.kubernetes.errors import granted, translated_errors
from clusters.backends.kubernetes.manifests import MANAGED_BY
from clusters.backends.kubernetes.quantities import amount
from clusters.backends.kubernetes.rights import Feature
from clusters.backends.kubernetes.settings import KubernetesSettings
from kube.base import KubernetesClient, Object
from kube.errors import NotFound, NotServed
from kube.resources import RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RESOURCE_SLICES, Ref

_MEMORY_SLICE = re.compile(r"memory-slice-(\d+)")
_LAST_NUMBER = re.compile(r"(\d+)$")
MIB = 2**20
Counters = Mapping[tuple[str, str], float]
"""By name of the set and of the counter."""


@dataclass(frozen=True, slots=True)
class _Device:
    """A device of a slice, as far as it is used here."""

    machine: str
    pool: str
    name: str
    profile: str
    uuid: str
    product: str
    memory_mib: int
    counters: Counters

    @property
    def card(self) -> tuple[str, str]:
        return self.pool, self.uuid

    @property
    def begin(self) -> int:
        """Return the first of the memory slices that it consumes."""
        found = (_MEMORY_SLICE.fullmatch(name) for _set, name in self.counters)
        return min((int(one[1]) for one in found if one), default=0)


class KubernetesDevices:
    """A DeviceClaims."""

    def __init__(self, client: KubernetesClient, settings: KubernetesSettings) -> None:
        self._client = client
        self._settings = settings

    def observe(self) -> tuple[ObservedCard, ...]:
        with translated_errors(), granted(self._client, self._settings, Feature.DEVICES):
            try:
                slices = self._client.gather(
                    RESOURCE_SLICES, keep=_read, fields=f"spec.driver={DRIVER}"
                ).items
            except NotServed:
                return ()
            if not any(one.devices for one in slices):
                return ()
            claims = self._client.gather(RESOURCE_CLAIMS, keep=_allocated).items
        return tuple(_cards(_newest(slices), [part for found in claims for part in found]))

    def put_template(self, name: str, profile: str, *, uuid: str = "") -> None:
        document = claim_template(profile, uuid=uuid)
        document["metadata"] = {
            "name": name,
            "namespace": self._settings.namespace,
            "labels": {MANAGED_BY: "slipway"},
        }
        with translated_errors(), granted(self._client, self._settings, Feature.DEVICES):
            self._client.apply(document, force=True)

    def has_template(self, name: str) -> bool:
        with translated_errors(), granted(self._client, self._settings, Feature.DEVICES):
            try:
                self._client.get(Ref(RESOURCE_CLAIM_TEMPLATES, name, self._settings.namespace))
            except NotFound:
                return False
            return True

    def remove_template(self, name: str) -> None:
        with translated_errors(), granted(self._client, self._settings, Feature.DEVICES):
            try:
                self._client.delete(Ref(RESOURCE_CLAIM_TEMPLATES, name, self._settings.namespace))
            except NotFound:
                return


@dataclass(frozen=True, slots=True)
class _Slice:
    pool: str
    generation: int
    devices: tuple[_Device, ...]
    counters: Counters


def _read(item: Object) -> _Slice:
    spec = item["spec"]
    pool, machine = spec["pool"]["name"], spec.get("nodeName", "")
    return _Slice(
        pool,
        int(spec["pool"].get("generation", 0)),
        tuple(_devices(spec.get("devices") or (), pool, machine)),
        dict(_counted((one["name"], one["counters"]) for one in spec.get("sharedCounters") or ())),
    )


def _newest(slices: Iterable[_Slice]) -> list[_Slice]:
    """Leave out slices of an older generation of their pool: the driver is about to remove them."""
    found = list(slices)
    latest: dict[str, int] = {}
    for one in found:
        latest[one.pool] = max(one.generation, latest.get(one.pool, 0))
    return [one for one in found if one.generation == latest[one.pool]]


def _devices(documents: Iterable[Object], pool: str, machine: str) -> Iterator[_Device]:
    for one in documents:
        said = {name: next(iter(value.values()), "") for name, value in (one.get("attributes") or {}).items()}
        kind = said.get("type")
        if kind not in ("gpu", "mig") or (kind == "mig" and not one.get("consumesCounters")):
            continue
        memory = ((one.get("capacity") or {}).get("memory") or {}).get("value", 0)
        yield _Device(
            machine=machine,
            pool=pool,
            name=one["name"],
            profile=str(said.get("profile", "")),
            uuid=str(said.get("parentUUID") or said.get("uuid", "")),
            product=str(said.get("productName", "")),
            memory_mib=int(amount(memory)) // MIB,
            counters=dict(
                _counted((each["counterSet"], each["counters"]) for each in one.get("consumesCounters") or ())
            ),
        )


def _counted(sets: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[tuple[tuple[str, str], float]]:
    for set_name, counters in sets:
        for name, counter in counters.items():
            yield (set_name, name), float(amount(counter["value"]))


def _allocated(claim: Object) -> list[tuple[str, str, ClaimedPart]]:
    """Return pool, device and holder of what a claim has of this driver."""
    status, meta = claim.get("status") or {}, claim["metadata"]
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
    users = tuple(
        f"{meta['namespace']}/{one['name']}"
        for one in status.get("reservedFor") or ()
        if one.get("resource") == "pods"
    )
    name = f"{meta['namespace']}/{meta['name']}"
    return [
        (one["pool"], one["device"], ClaimedPart(profile="", begin=0, claim=name, users=users))
        for one in results
        if one["driver"] == DRIVER
    ]


def _cards(slices: list[_Slice], held: list[tuple[str, str, ClaimedPart]]) -> Iterator[ObservedCard]:
    by_pool: dict[str, dict[tuple[str, str], float]] = {}
    for one in slices:
        by_pool.setdefault(one.pool, {}).update(one.counters)
    holders: dict[tuple[str, str], ClaimedPart] = {(pool, device): part for pool, device, part in held}
    cards: dict[tuple[str, str], list[_Device]] = {}
    for one in slices:
        for device in one.devices:
            cards.setdefault(device.card, []).append(device)
    for (pool, uuid), devices in sorted(cards.items()):
        whole = next((one for one in devices if not one.profile), None)
        if whole is None:
            continue  # somebody has divided it for good
        left = dict(by_pool.get(pool, {}))
        parts = []
        for device in devices:
            part = holders.get((pool, device.name))
            if part is not None:
                _consume(left, device)
                parts.append(
                    ClaimedPart(
                        profile=device.profile, begin=device.begin, claim=part.claim, users=part.users
                    )
                )
        number = _LAST_NUMBER.search(whole.name)
        yield ObservedCard(
            machine=whole.machine,
            index=int(number[1]) if number else 0,
            uuid=uuid,
            product=whole.product,
            memory_mib=whole.memory_mib,
            held=tuple(sorted(parts, key=lambda one: one.begin)),
            room=_room(left, [one for one in devices if one.profile]),
        )


def _room(left: Mapping[tuple[str, str], float], devices: Iterable[_Device]) -> dict[str, int]:
    """Return how many of each profile the counters still hold, each profile for itself."""
    found: dict[str, int] = {}
    remaining: dict[str, dict[tuple[str, str], float]] = {}
    for device in devices:
        rest = remaining.setdefault(device.profile, dict(left))
        fits = all(rest.get(name, 0) >= value for name, value in device.counters.items())
        found[device.profile] = found.get(device.profile, 0) + fits
        if fits:
            _consume(rest, device)
    return found


def _consume(left: dict[tuple[str, str], float], device: _Device) -> None:
    for name, value in device.counters.items():
        left[name] = left.get(name, 0) - value
