"""Devices of resource.k8s.io/v1 as the scheduler allocates them: selectors, counters, and who has which.

Of CEL it reads comparisons of a device's driver and attributes with texts, joined by `&&`. It knows requests
of `exactly` so many devices and the constraint `matchAttribute`; no `firstAvailable`, admin access, taints,
capacity requests or devices of several machines.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from kube.fake.defaults import quantity

Object = dict[str, Any]
_DRIVER = re.compile(r"device\.driver\s*==\s*(['\"])(?P<value>[^'\"]*)\1")
_ATTRIBUTE = re.compile(
    r"device\.attributes\[(['\"])(?P<domain>[^'\"]+)\1\]\.(?P<name>\w+)\s*==\s*(['\"])(?P<value>[^'\"]*)\4"
)


@dataclass(frozen=True)
class PublishedDevice:
    """A device of a slice, with the pool whose counters it consumes."""

    driver: str
    pool: str
    node: str
    document: Object

    @property
    def key(self) -> tuple[str, str, str]:
        return self.driver, self.pool, self.document["name"]

    def attribute(self, domain: str, name: str) -> Any:
        """Return the value of an attribute; those without a domain are of the driver's own."""
        attributes = self.document.get("attributes") or {}
        found = attributes.get(f"{domain}/{name}") or (
            attributes.get(name) if domain == self.driver else None
        )
        return next(iter(found.values()), None) if found else None

    def matches(self, selectors: Iterable[Object]) -> bool:
        return all(
            self._is_true(part.strip()) for one in selectors for part in one["cel"]["expression"].split("&&")
        )

    def _is_true(self, expression: str) -> bool:
        if found := _DRIVER.fullmatch(expression):
            return found["value"] == self.driver
        found = _ATTRIBUTE.fullmatch(expression)
        return found is not None and self.attribute(found["domain"], found["name"]) == found["value"]


class DevicePools:
    """The devices of a cluster and what is left of their counters, as they are filled."""

    def __init__(self, slices: Iterable[Object], classes: Iterable[Object], claims: Iterable[Object]) -> None:
        self.classes = {one["metadata"]["name"]: one["spec"] for one in classes}
        self.devices: list[PublishedDevice] = []
        self._left: dict[tuple[str, str, str, str], Decimal] = {}
        for one in slices:
            spec = one["spec"]
            pool = spec["driver"], spec["pool"]["name"]
            for device in spec.get("devices") or ():
                self.devices.append(PublishedDevice(*pool, spec.get("nodeName", ""), device))
            for counters in spec.get("sharedCounters") or ():
                for name, counter in counters["counters"].items():
                    self._left[(*pool, counters["name"], name)] = _amount(counter["value"])
        self._by_key = {one.key: one for one in self.devices}
        self._taken: set[tuple[str, str, str]] = set()
        for claim in claims:
            for result in results_of(claim):
                self.take((result["driver"], result["pool"], result["device"]))

    def take(self, key: tuple[str, str, str]) -> None:
        self._taken.add(key)
        if key in self._by_key:
            self._consume(self._by_key[key], 1)

    def give_back(self, results: Iterable[Object]) -> None:
        """Free what `allocate` took."""
        for one in results:
            self._give_back(self._by_key[(one["driver"], one["pool"], one["device"])])

    def _give_back(self, device: PublishedDevice) -> None:
        self._taken.discard(device.key)
        self._consume(device, -1)

    def _consume(self, device: PublishedDevice, sign: int) -> None:
        for counter, amount in self._consumption(device):
            self._left[counter] = self._left.get(counter, Decimal(0)) - sign * amount

    def _consumption(self, device: PublishedDevice) -> Iterator[tuple[tuple[str, str, str, str], Decimal]]:
        for one in device.document.get("consumesCounters") or ():
            for name, counter in one["counters"].items():
                yield (device.driver, device.pool, one["counterSet"], name), _amount(counter["value"])

    def is_free(self, device: PublishedDevice) -> bool:
        return device.key not in self._taken and all(
            self._left.get(counter, Decimal(0)) >= amount for counter, amount in self._consumption(device)
        )

    def allocate(self, spec: Object, node: str) -> list[Object] | None:
        """Take devices of the machine for each request of a claim; return the results, None: it has none."""
        asked = (spec.get("devices") or {}).get("requests") or ()
        wanted = [
            (request["name"], [*self._class_selectors(exactly), *(exactly.get("selectors") or ())])
            for request in asked
            if (exactly := request.get("exactly")) is not None
            for _ in range(exactly.get("count", 1))
        ]
        if any(request.get("exactly", {}).get("deviceClassName") not in self.classes for request in asked):
            return None
        constraints = (spec.get("devices") or {}).get("constraints") or ()
        found = self._placed(wanted, node, constraints, [])
        if found is None:
            return None
        return [
            {"request": name, "driver": one.driver, "pool": one.pool, "device": one.document["name"]}
            for name, one in found
        ]

    def _class_selectors(self, exactly: Object) -> list[Object]:
        return list(self.classes.get(exactly.get("deviceClassName", ""), {}).get("selectors") or ())

    def _placed(
        self,
        wanted: list[tuple[str, list[Object]]],
        node: str,
        constraints: Iterable[Object],
        chosen: list[tuple[str, PublishedDevice]],
    ) -> list[tuple[str, PublishedDevice]] | None:
        if not wanted:
            return chosen
        (name, selectors), *rest = wanted
        for device in self.devices:
            if device.node != node or not device.matches(selectors) or not self.is_free(device):
                continue
            both = [*chosen, (name, device)]
            if not all(_agrees(one, both) for one in constraints):
                continue
            self.take(device.key)
            if (found := self._placed(rest, node, constraints, both)) is not None:
                return found
            self._give_back(device)
        return None


def _agrees(constraint: Object, chosen: list[tuple[str, PublishedDevice]]) -> bool:
    domain, _, name = constraint.get("matchAttribute", "").rpartition("/")
    about = constraint.get("requests") or [one for one, _device in chosen]
    values = {str(device.attribute(domain, name)) for one, device in chosen if one in about}
    return len(values) <= 1


def results_of(claim: Mapping[str, Any]) -> list[Object]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return list((allocation.get("devices") or {}).get("results") or ())


def _amount(value: Any) -> Decimal:
    return quantity(value) or Decimal(0)
