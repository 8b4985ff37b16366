"""Where the nodes of a graph stand in its picture, and how its edges run."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from serving.graphs.description import GraphDescription

WIDTH, HEIGHT = 184, 66
ACROSS, DOWN = 64, 22
MARGIN = 8


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A box. kind: `input`, `task` or `output`. facts: lines below its name."""

    name: str
    kind: str
    x: int
    y: int
    facts: tuple[str, ...] = ()
    is_bottleneck: bool = False
    busy: float | None = None
    is_live: bool = False
    mark: str = ""

    @property
    def busy_width(self) -> float:
        return round(WIDTH * min(1.0, self.busy or 0.0), 1)


@dataclass(frozen=True, slots=True)
class GraphDrawing:
    """The picture in pixels; paths are of edges."""

    width: int
    height: int
    nodes: tuple[DrawnNode, ...]
    paths: tuple[str, ...]
    node_width: int = WIDTH
    node_height: int = HEIGHT


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Figures that a task's node shows beside its name. `mark`: added, removed or changed; empty: none."""

    lines: tuple[str, ...] = ()
    is_bottleneck: bool = False
    busy: float | None = None
    is_live: bool = False
    mark: str = ""


@dataclass(slots=True)
class _Layers:
    depth: dict[str, int] = field(default_factory=dict)
    edges: list[tuple[str, str]] = field(default_factory=list)

    def add(self, name: str, sources: list[str]) -> None:
        self.depth[name] = max((self.depth[one] + 1 for one in sources), default=0)
        self.edges += [(one, name) for one in dict.fromkeys(sources)]


def draw(graph: GraphDescription, facts: Mapping[str, NodeFacts]) -> GraphDrawing:
    """Layers from left to right: each node one after the last that it waits for. `facts`: by node or task."""
    layers, kinds, tasks = _Layers(), dict[str, str](), dict[str, str]()
    for given in graph.inputs:
        layers.add(given.name, [])
        kinds[given.name] = "input"
    for node in graph.nodes:
        layers.add(node.name, [source.name for source in node.sources if source.name])
        kinds[node.name], tasks[node.name] = "task", node.task
    for output in graph.outputs:
        name = f"={output.name}"
        layers.add(name, [output.source.name])
        kinds[name] = "output"
    columns: dict[int, list[str]] = {}
    for name, depth in layers.depth.items():
        columns.setdefault(depth, []).append(name)
    before: dict[str, list[str]] = {}
    for source, target in layers.edges:
        before.setdefault(target, []).append(source)
    rows: dict[str, float] = {}
    for depth in sorted(columns):
        # Near to what they wait for, so that few edges cross.
        columns[depth].sort(key=lambda name: _mean([rows[one] for one in before.get(name, ())]))
        rows |= {name: float(row) for row, name in enumerate(columns[depth])}
    tallest = max(len(column) for column in columns.values())
    nodes, at = [], {}
    for depth, column in columns.items():
        top = MARGIN + (tallest - len(column)) * (HEIGHT + DOWN) // 2
        for row, name in enumerate(column):
            x, y = MARGIN + depth * (WIDTH + ACROSS), top + row * (HEIGHT + DOWN)
            at[name] = (x, y)
            known = facts.get(name) or facts.get(tasks.get(name, ""), NodeFacts())
            label = name[1:] or "output" if kinds[name] == "output" else name
            nodes.append(
                DrawnNode(
                    label,
                    kinds[name],
                    x,
                    y,
                    known.lines,
                    known.is_bottleneck,
                    known.busy,
                    known.is_live,
                    known.mark,
                )
            )
    paths = tuple(_path(at[source], at[target]) for source, target in layers.edges)
    width = 2 * MARGIN + len(columns) * (WIDTH + ACROSS) - ACROSS
    height = 2 * MARGIN + tallest * (HEIGHT + DOWN) - DOWN
    return GraphDrawing(width, height, tuple(nodes), paths)


def _mean(rows: list[float]) -> float:
    return sum(rows) / len(rows) if rows else 0.0


def _path(source: tuple[int, int], target: tuple[int, int]) -> str:
    x, y = source[0] + WIDTH, source[1] + HEIGHT // 2
    to_x, to_y = target[0] - 5, target[1] + HEIGHT // 2
    bend = max(ACROSS // 2, (to_x - x) // 2)
    return f"M{x} {y}C{x + bend} {y} {to_x - bend} {to_y} {to_x} {to_y}"
