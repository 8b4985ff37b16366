import argparse
import os
import sys

from perf import kubernetes
from perf.kubernetes import heard, looks, memory
from perf.registry.table import database
from perf.required import RequiredFigure, at_most, report

SMALLER = 10
MOST_GROWTH = 1.5
MOST_BYTES = 2_048
MOST_WORKER_MEGABYTES = 394
"""Half of what a worker took at 1,000 machines and 10,000 pods once."""
MOST_SHARE = 0.1
"""Of a core."""
LOOK_SECONDS = 10.0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m perf.kubernetes",
        description=kubernetes.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--machines", type=int, default=5_000)
    parser.add_argument("--alone", choices=("ours", "all", "worker"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.test")
        if options.alone == "worker":
            memory.alone(options.machines)
        heard.alone(options.machines, pods=options.alone)
        return 0
    many, few = options.machines, max(1, options.machines // SMALLER)
    rows = [*_heard_rows(many, few)]
    with database():
        small, large = looks.measured(few), looks.measured(many)
        rows += _memory_rows(memory.measured(many))
    for name, words in (("page", "machines' page"), ("rest", "REST list of machines")):
        said = f"{large[name] * 1e3:,.0f} ms, {large[f'{name} queries']:.0f} queries"
        rows.append(
            RequiredFigure(
                f"one page of the {words}, own CPU", f"{said}, {large[f'{name} bytes'] / 1024:,.0f} KiB"
            )
        )
        rows.append(_no_more_queries(small, large, name))
    rows += [
        RequiredFigure("first look at all machines, own CPU", f"{large['first']:.1f} s"),
        RequiredFigure("a look when nothing changed, by a list", f"{large['by list']:.2f} s"),
        RequiredFigure(
            "  by what the watcher shares", f"{large['same'] * 1e3:,.0f} ms, {large['queries']:.0f} queries"
        ),
        at_most("    share of a core at one look in ten seconds", large["same"] / LOOK_SECONDS, MOST_SHARE),
        RequiredFigure("  when a hundredth of the machines changed", f"{large['hundredth'] * 1e3:,.0f} ms"),
        at_most(
            f"  per machine, {many:,} over {few:,}", large["same"] / many / (small["same"] / few), MOST_GROWTH
        ),
    ]
    return report(rows)


def _memory_rows(worker: dict[str, float]) -> list[RequiredFigure]:
    works = ("checks", "first look", "pods")
    return [
        RequiredFigure("memory of a worker that has loaded the code", f"{worker['loaded'] / 1e6:,.0f} MB"),
        *(RequiredFigure(f"  at its peak: {name}", f"{worker[name] / 1e6:,.0f} MB") for name in works),
        at_most("  at rest after a cold start, MB", worker["rest"] / 1e6, MOST_WORKER_MEGABYTES),
    ]


def _no_more_queries(small: dict[str, float], large: dict[str, float], name: str) -> RequiredFigure:
    few, many = small[f"{name} queries"], large[f"{name} queries"]
    return RequiredFigure(
        "  queries, of few and of many machines", f"{few:.0f} and {many:.0f}", "as many", few == many
    )


def _heard_rows(many: int, few: int) -> list[RequiredFigure]:
    small, large = heard.measured(few, pods="all"), heard.measured(many, pods="all")
    objects = many * heard.OBJECTS_PER_MACHINE
    list_large = (large["nodes list"] + large["pods list"]) / objects
    list_small = (small["nodes list"] + small["pods list"]) / (few * heard.OBJECTS_PER_MACHINE)
    share = large["events"] / heard.EVENTS * heard.EVENTS_PER_SECOND
    megabytes = (large["nodes bytes"] + large["pods bytes"]) / 1e6
    return [
        RequiredFigure(
            "machines and pods", f"{many:,} and {objects - many:,}, {megabytes:,.0f} MB as a list"
        ),
        RequiredFigure("list of machines, own CPU", f"{large['nodes list']:.2f} s"),
        RequiredFigure("list of pods, own CPU", f"{large['pods list']:.2f} s"),
        at_most(f"  per object, {many:,} machines over {few:,}", list_large / list_small, MOST_GROWTH),
        at_most("kept of an object, bytes", large["memory"] / large["kept"], MOST_BYTES),
        RequiredFigure(
            "more memory than before the list, with a page in it", f"{large['peak'] / 1e6:,.0f} MB"
        ),
        at_most(f"{heard.EVENTS_PER_SECOND} events a second, share of a core", share, MOST_SHARE),
        at_most(
            f"  per event, {many:,} machines over {few:,}", large["events"] / small["events"], MOST_GROWTH
        ),
    ]


if __name__ == "__main__":
    sys.exit(main())
