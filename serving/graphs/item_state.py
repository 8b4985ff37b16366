"""One item inside: its values, which of its calls are over, and where a value is found. Pure."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from serving.graphs.counters import Span
from serving.graphs.description import ValueSource
from serving.graphs.routes import GraphRoutes, Part, PartMode, Path


class PackedRef(NamedTuple):
    """A value in packed form; what it is, the executor knows."""

    packed: Any


class ListRef(NamedTuple):
    elements: tuple[Any, ...]


class InputRef(NamedTuple):
    """A field of an input, which whoever needs it decodes from its bytes."""

    name: str
    path: Path
    packed: Any


class ConstantRef(NamedTuple):
    """A field of the constant `otherwise` of a node."""

    node: str
    path: Path


class BrokenRef(NamedTuple):
    """A part that could not be taken out of its value. `reason`: what the serial run would raise."""

    reason: str


class FlagRef(NamedTuple):
    is_true: bool


Ref = PackedRef | ListRef | InputRef | ConstantRef | BrokenRef | FlagRef

RAW = Part((), PartMode.RAW)


@dataclass(eq=False)
class Unit:
    """A call that is to be made for an item: of a node, or (no task) of one part of a value."""

    item: "ItemState"
    node: str
    element: int = -1
    queued: float = 0.0
    attempt: int = 0
    deaths: int = 0
    derived: tuple[str, Part] | None = None
    """Name of the value and its part, where it is not a call of a node."""

    @property
    def is_alone(self) -> bool:
        """Whether it has ended a process or failed before: others must not suffer with it."""
        return bool(self.deaths or self.attempt)


@dataclass(eq=False)
class ItemState:
    id: int
    routes: GraphRoutes
    priority: int
    admitted: float
    left: dict[str, set[str]] = field(default_factory=dict)
    """By node whose call is not ready: the nodes that it waits for."""
    results: dict[tuple[str, int], dict[Part, Ref]] = field(default_factory=dict)
    """Parts by name and element (-1: no `each`)."""
    counts: dict[str, int] = field(default_factory=dict)
    """Elements of an `each` by node."""
    missing: dict[str, int] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)
    users: dict[str, set[str]] = field(default_factory=dict)
    asked: dict[tuple[str, Part], list[str]] = field(default_factory=dict)
    """Parts that are being derived, and the nodes or outputs that wait for them."""
    over: set[str] = field(default_factory=set)
    """Nodes whose value is there, or that were skipped."""
    outputs: dict[str, Ref] = field(default_factory=dict)
    outputs_asked: set[str] = field(default_factory=set)
    is_over: bool = False
    calls: list[Span] = field(default_factory=list)
    """Calls that ended, in their order."""

    def __post_init__(self) -> None:
        self.left = {name: set(waits) for name, waits in self.routes.waits_for.items()}
        self.users = {name: set(users) for name, users in self.routes.users.items()}

    def part(self, source: ValueSource, mode: PartMode) -> Ref | None:
        """The part of a value, through what was skipped; None: it must be derived first."""
        name, path = self.origin(source.name, source.path)
        if name in self.routes.inputs:
            if mode is not PartMode.VALUE:
                return self._kept(name, Part(path, mode))
            return InputRef(name, path, self.results[name, -1][RAW].packed)  # type: ignore[union-attr]
        node = self.routes.nodes[name]
        if name in self.skipped:
            return ConstantRef(name, path) if mode is PartMode.VALUE else self._kept(name, Part(path, mode))
        if not node.each:
            return self._kept(name, Part(path, mode))
        if path:
            if mode is not PartMode.VALUE:
                return self._kept(name, Part(path, mode))
            number = path[0]
            count = self.counts[name]
            if not isinstance(number, int) or not -count <= number < count:
                return BrokenRef("IndexError: list index out of range")
            return self.results[name, number % count][Part(path[1:], PartMode.VALUE)]
        if mode is PartMode.OUTPUT or mode is PartMode.FLAG:
            return self._kept(name, Part((), mode))
        whole = Part((), PartMode.VALUE)
        elements = tuple(self.results[name, number][whole] for number in range(self.counts[name]))
        broken = [one for one in elements if isinstance(one, BrokenRef)]
        return broken[0] if broken else ListRef(elements)

    def origin(self, name: str, path: Path) -> tuple[str, Path]:
        """Return the source of the value of a node that was skipped; a constant is its own."""
        while name in self.skipped:
            otherwise = self.routes.nodes[name].otherwise
            if otherwise is None or not otherwise.name:
                break
            name, path = otherwise.name, (*otherwise.path, *path)
        return name, path

    def _kept(self, name: str, part: Part) -> Ref | None:
        return self.results.get((name, -1), {}).get(part)

    def keep(self, name: str, element: int, parts: dict[Part, Ref]) -> None:
        self.results.setdefault((name, element), {}).update(parts)

    def drop(self, name: str) -> list[Any]:
        """Forgets a value; what was packed of it."""
        gone = [key for key in self.results if key[0] == name]
        return [packed for key in gone for ref in self.results.pop(key).values() for packed in packed_in(ref)]

    def drop_all(self) -> list[Any]:
        return [packed for name in {key[0] for key in self.results} for packed in self.drop(name)]


def packed_in(ref: Ref) -> list[Any]:
    if isinstance(ref, PackedRef):
        return [ref.packed]
    if isinstance(ref, ListRef):
        return [packed for one in ref.elements for packed in packed_in(one)]
    return []
