"""Measures the parts that are named, or all but `gpu`, and prints a table. `--peers`: a Python with mosec,
LitServe and Ray (`python -m venv PEERS; PEERS/bin/pip install mosec litserve "ray[serve]" numpy`)."""

import argparse
import sys
from importlib import import_module

from perf.required import RequiredFigure, report

PARTS = ("hop", "floor", "batching", "processes", "gpu")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m perf.serving", description=__doc__)
    parser.add_argument(
        "parts",
        nargs="*",
        default=list(PARTS[:-1]),
        metavar="PART",
        help=", ".join(PARTS),
    )
    parser.add_argument("--peers", default="", help="Python of an environment with the peers")
    chosen = parser.parse_args()
    if unknown := set(chosen.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    rows: list[RequiredFigure] = []
    for part in chosen.parts:
        rows += import_module(f"perf.serving.{part}").rows(chosen.peers)
    return report(rows)


if __name__ == "__main__":
    sys.exit(main())
