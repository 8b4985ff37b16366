import argparse
import os
from collections.abc import Callable, Iterator
from functools import partial

from perf import fleet
from perf.fleet import history, page, reports, watchers
from perf.required import RequiredFigure, report


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m perf.fleet",
        description=fleet.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("part", choices=("reports", "watchers", "page", "history", "all"))
    parser.add_argument("--seconds", type=float, default=20, help="How long each measurement takes.")
    options = parser.parse_args()
    parts: dict[str, Callable[[], Iterator[RequiredFigure]]] = {
        "reports": partial(reports.figures, options.seconds),
        "watchers": partial(watchers.figures, options.seconds),
        "page": partial(page.figures, options.seconds),
        "history": history.figures,
    }
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    print(f"{os.cpu_count()} cores, load {load}")
    wanted = parts if options.part == "all" else [options.part]
    return report([figure for name in wanted for figure in parts[name]()])


if __name__ == "__main__":
    raise SystemExit(main())
