"""Measures the tasks of a graph on this machine: times by batch size, memory, cores, bytes and visits.

Every task runs in a process of its own, as it will be served. Standard library only, but for torch where the
tasks use cards.
"""

import hashlib
import multiprocessing
import os
import pickle
import platform
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from math import sqrt
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from serving.graphs.encoding import decode_named
from serving.graphs.errors import GraphError, ItemFailed
from serving.graphs.loading import load_graph
from serving.graphs.offline import items_of
from serving.graphs.profile_cards import MeasuredCard, driver_version
from serving.graphs.profile_neighbours import neighbours, shared_out
from serving.graphs.program import Graph
from serving.graphs.serial import SerialRun, call_alone, look_up
from serving.graphs.task_process import limit_threads
from serving.leash import end_with_parent
from serving.runtime.gpu_model import Files

MOST_ITEMS = 32
MOST_CALLS = 64
"""Calls of one task that are kept as inputs of batches."""
LEAST_REPEATS, MOST_REPEATS = 5, 200
NARROW = 0.05
"""Half of the 95 % interval of a mean, as a share of it, at which a size is measured enough."""
SECONDS_BY_SIZE = 8.0
LARGEST_SIZE = 64
SERVICE = "service"
"""Option of a task that is a service: its replicas are only who waits for answers."""
MEMORY_SHARE = 0.5
"""Share of the free memory that neighbours may take."""
START_SECONDS = 600.0

Call = tuple[Any, ...]


@dataclass(kw_only=True)
class BatchFigures:
    """Figures of a batch size: seconds, bytes at the peak. half_width: of the 95 % interval of the mean."""

    size: int
    seconds: float
    deviation: float
    half_width: float
    calls: int
    memory: int
    card_memory: int = 0


@dataclass(kw_only=True)
class TaskFigures:
    """A task's figures on a kind of machine. bytes: by call. visits: calls for an item of the graph.

    interference: how many times as long its largest batch takes beside `neighbours` processes of the graph's
    other tasks; 1 where none could run. card_time: share of a batch for which it keeps its card busy.
    """

    task: str
    option: str
    times: list[BatchFigures]
    cores: float
    load_seconds: float
    bytes_in: float = 0.0
    bytes_out: float = 0.0
    visits: float = 1.0
    card: str = ""
    card_time: float = 1.0
    interference: float = 1.0
    neighbours: int = 0


@dataclass(kw_only=True)
class RecordedCalls:
    """Inputs of a task as the graph gives them, and what they amount to."""

    calls: list[Call] = field(default_factory=list)
    count: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


def profile(file: Path, source: Path, *, device: str = "cpu", beside: int | None = None) -> dict[str, Any]:
    """Measure all tasks of the graph over items of `source`: a report for `graphs/{graph}/profile/`.

    `beside`: processes of other tasks at most that each is measured beside; None: on all other cores.

    Raises GraphError, AppError, and what the user's file raises.
    """
    if device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    graph = load_graph(file)
    recorded, items = _apart(lambda: record_calls(graph, file.parent, source))
    machine, tasks = this_machine(device), []
    kind = machine["cards"][0]["kind"] if machine["cards"] else ""
    for task in graph.description.tasks:
        calls = recorded.get(task.name)
        if calls is None or not calls.count or (task.device == "cuda" and not kind):
            continue
        on = "" if task.device == "cpu" else kind
        figures = _apart(partial(measure_task, graph, task.name, file.parent, calls, on))
        if task.kind == "service":
            figures.option = SERVICE
        figures.visits = calls.count / items
        figures.bytes_in, figures.bytes_out = calls.bytes_in / calls.count, calls.bytes_out / calls.count
        tasks.append(figures)
    if not tasks:
        raise GraphError(f"{graph.name}: no task ran on {device}: give items that reach one")
    others = len(os.sched_getaffinity(0)) - 1
    if beside is not None:
        others = min(others, beside)
    _measure_beside(graph, file.parent, tasks, recorded, others)
    return {
        "digest": graph.description.digest,
        "code": hashlib.sha256(file.read_bytes()).hexdigest(),
        "machine": machine,
        "driver": driver_version() if machine["cards"] else "",
        "tasks": [asdict(one) for one in tasks],
    }


def _measure_beside(
    graph: Graph,
    directory: Path,
    tasks: Sequence[TaskFigures],
    recorded: Mapping[str, RecordedCalls],
    count: int,
) -> None:
    """Add to figures how much longer each task takes beside the others, and the cores that it gets there.

    Tasks on a card are no neighbours: plans count the card's time by itself. Services run elsewhere.
    """
    here = [one for one in tasks if one.option != SERVICE]
    on_cores = [one for one in here if not one.card]
    work = {one.task: one.visits * one.times[-1].seconds / one.times[-1].size * one.cores for one in on_cores}
    largest = max((one.times[-1].memory for one in on_cores), default=0)
    if largest:
        count = min(count, int(_free_memory() * MEMORY_SHARE / largest))
    names = shared_out(work, count)
    if not names:
        return
    calls = {name: recorded[name].calls for name in names}
    with neighbours(graph, directory, names, calls):
        for one in here:
            again = partial(time_again, graph, one.task, directory, recorded[one.task], one.card)
            seconds, cores = _apart(partial(again, one.times[-1].size))
            one.cores = round(max(0.01, cores), 3)
            one.interference = round(max(1.0, seconds / one.times[-1].seconds), 3)
            one.neighbours = len(names)


def record_calls(graph: Graph, directory: Path, source: Path) -> tuple[dict[str, RecordedCalls], int]:
    """Run items serially, and keep what each task was given. Items that fail are left out."""
    serial, found = SerialRun(graph, directory), {one.name: RecordedCalls() for one in graph.loaded}
    done, reason, names = 0, "", list(graph.inputs)
    for item in items_of(source, names):
        if done == MOST_ITEMS:
            break
        try:
            encoded = item.read(names)
            values = {name: decode_named(name, kind, encoded[name]) for name, kind in graph.inputs.items()}
            for node in graph.nodes:
                values[node.name] = serial._value(node, values)
        except ItemFailed as error:
            reason = str(error)
            continue
        except Exception as error:  # of the user's task, which may raise anything
            reason = f"{type(error).__name__}: {error}"
            continue
        done += 1
        for node in graph.nodes:
            if node.condition is not None and not look_up(node.condition[0], values):
                continue
            arguments = [look_up(value, values) for value in node.arguments]
            results = values[node.name] if node.each else [values[node.name]]
            calls = [(one, *arguments[1:]) for one in arguments[0]] if node.each else [tuple(arguments)]
            mine = found[node.loaded.name]
            mine.count += len(calls)
            mine.bytes_in += sum(_size(call) for call in calls)
            mine.bytes_out += sum(_size(result) for result in results)
            mine.calls += calls[: MOST_CALLS - len(mine.calls)]
    if not done:
        raise GraphError(f"{graph.name}: no item of {source} ran to its end. {reason}".strip())
    return found, done


def measure_task(graph: Graph, name: str, directory: Path, recorded: RecordedCalls, kind: str) -> TaskFigures:
    """Load the task in this process and time batches of its recorded calls. `kind`: the card that it may use;
    one that it leaves alone is not said to be its option."""
    loaded = next(one for one in graph.loaded if one.name == name)
    card = MeasuredCard(kind)
    began = time.perf_counter()
    run = loaded.make(Files(directory))
    load_seconds = time.perf_counter() - began
    limit_threads(loaded.task.options.cores)
    batched = loaded.task.is_class
    largest = min(loaded.task.options.batch.max_size, LARGEST_SIZE) if batched else 1
    sizes = [size for size in (1, 2, 4, 8, 16, 32, 64) if size < largest] + [largest]
    times, cores = [], []
    for size in sizes:
        figures, busy = _time_size(run, recorded.calls, size, batched=batched, card=card)
        times.append(figures)
        cores.append(busy)
    # The largest batch keeps the card busiest; a trace alone slows calls down.
    busy_seconds = card.busy_seconds(_caller(run, recorded.calls, sizes[-1], batched=batched, card=card))
    kind = kind if card.is_used else ""
    return TaskFigures(
        task=name,
        option=kind or "cpu",
        times=times,
        cores=round(max(0.01, mean(cores)), 3),
        load_seconds=load_seconds,
        card=kind,
        card_time=round(min(1.0, busy_seconds / times[-1].seconds), 3) if busy_seconds else 1.0,
    )


def time_again(
    graph: Graph, name: str, directory: Path, recorded: RecordedCalls, kind: str, size: int
) -> tuple[float, float]:
    """Return the mean seconds of a batch of one size in this process, and the cores that it keeps busy."""
    loaded = next(one for one in graph.loaded if one.name == name)
    card, run = MeasuredCard(kind), loaded.make(Files(directory))
    limit_threads(loaded.task.options.cores)
    figures, busy = _time_size(run, recorded.calls, size, batched=loaded.task.is_class, card=card)
    return figures.seconds, busy


def _caller(
    run: Callable[..., Any], calls: Sequence[Call], size: int, *, batched: bool, card: MeasuredCard
) -> Callable[[int], None]:
    """Return what runs a batch of recorded calls to its end."""

    def once(number: int) -> None:
        chosen = [calls[(number * size + place) % len(calls)] for place in range(size)]
        if batched:
            run(*(list(column) for column in zip(*chosen, strict=True)))
        else:
            call_alone(run, chosen[0], is_class=False)
        card.wait()

    return once


def _time_size(
    run: Callable[..., Any], calls: Sequence[Call], size: int, *, batched: bool, card: MeasuredCard
) -> tuple[BatchFigures, float]:
    once = _caller(run, calls, size, batched=batched, card=card)
    once(0)
    _forget_peak()
    seconds: list[float] = []
    cpu, began = time.process_time(), time.perf_counter()
    while len(seconds) < MOST_REPEATS:
        start = time.perf_counter()
        once(len(seconds))
        seconds.append(time.perf_counter() - start)
        enough = len(seconds) >= LEAST_REPEATS and _half_width(seconds) <= NARROW * mean(seconds)
        if enough or (time.perf_counter() - began > SECONDS_BY_SIZE and len(seconds) > 1):
            break
    wall = time.perf_counter() - began
    busy = (time.process_time() - cpu) / wall
    return (
        BatchFigures(
            size=size,
            seconds=mean(seconds),
            deviation=stdev(seconds),
            half_width=_half_width(seconds),
            calls=len(seconds),
            memory=_peak_memory(),
            card_memory=card.used(),
        ),
        busy,
    )


def _half_width(seconds: Sequence[float]) -> float:
    # Student's factor for five values is 2.8; it falls to 2.
    factor = 2.0 + 4.0 / len(seconds)
    return factor * stdev(seconds) / sqrt(len(seconds)) if len(seconds) > 1 else float("inf")


def _size(value: Any) -> int:
    return len(pickle.dumps(value, protocol=5))


def _forget_peak() -> None:
    with Path("/proc/self/clear_refs").open("w") as file:
        file.write("5")


def _peak_memory() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def _free_memory() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))


def this_machine(device: str) -> dict[str, Any]:
    """The machine as plans know it."""
    cards: list[dict[str, Any]] = []
    if device == "cuda":
        cards = _apart(_cards)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    cores = float(len(os.sched_getaffinity(0)))
    return {"name": platform.node() or "localhost", "cores": cores, "memory": memory, "cards": cards}


def _cards() -> list[dict[str, Any]]:
    import torch

    return [
        {
            "name": str(number),
            "kind": torch.cuda.get_device_name(number),
            "memory": torch.cuda.mem_get_info(number)[1],
        }
        for number in range(torch.cuda.device_count())
    ]


def _apart(work: Callable[[], Any]) -> Any:
    """Do the work in a process of its own, a copy of this one, in which nothing is loaded.

    Raises GraphError when the work fails or its process dies.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(work, sender))
    process.start()
    sender.close()
    try:
        answered = receiver.poll(START_SECONDS)
        result, error = receiver.recv() if answered else (None, GraphError("measuring took too long"))
    except EOFError:
        process.join()
        result, error = None, GraphError(f"the process that measured died with status {process.exitcode}")
    finally:
        if process.is_alive():
            process.join(5)
            process.kill()
    if error is not None:
        raise error
    return result


def _answer(work: Callable[[], Any], sender: Any) -> None:
    end_with_parent(signal.SIGKILL)
    try:
        answer: tuple[Any, BaseException | None] = (work(), None)
    except GraphError as error:
        answer = (None, error)
    except Exception as error:
        answer = (None, GraphError(f"{type(error).__name__}: {error}"))
    sender.send(answer)
