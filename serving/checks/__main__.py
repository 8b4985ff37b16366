"""The command line: see this package's docstring."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from serving.checks.device import NO_GPU, DeviceUnderTest, gpus, processor
from serving.checks.levels import LEVELS
from serving.checks.report import Report
from serving.checks.supervision import run

PASSED, FAILED, USAGE, NOTHING_CHECKED = 0, 1, 2, 3
JOB_DIRECTORY = "SLIPWAY_JOB_DIR"
"""Where a job of the control plane's machine leaves its result."""


def main(arguments: Sequence[str]) -> int:
    given = command_line().parse_args(arguments)
    targets = [processor()] * given.processes if given.device == "cpu" else gpus()
    if given.gpu:
        unknown = set(given.gpu) - {name for one in targets for name in _names(one)}
        if unknown:
            known = ", ".join(f"{one.index} ({one.uuid}, {one.bus_id})" for one in targets) or "none"
            sys.stderr.write(f"serving.checks: no GPU {', '.join(sorted(unknown))}. There are: {known}.\n")
            return USAGE
        targets = [one for one in targets if _names(one) & set(given.gpu)]
    if not targets:
        sys.stderr.write(f"{NO_GPU}\n")
        return NOTHING_CHECKED
    report = run(targets, LEVELS[given.level], network=given.network)
    _leave(report)
    if given.json:
        sys.stdout.write(json.dumps(report.to_dict(), separators=(",", ":")) + "\n")
    else:
        sys.stdout.write("\n".join(report.lines()) + "\n")
    if report.failed:
        return FAILED
    return PASSED if report.passed else NOTHING_CHECKED


def command_line() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("serving.checks", description=__doc__, allow_abbrev=False)
    what = parser.add_subparsers(required=True, metavar="WHAT")
    gpu = what.add_parser("gpu", help="the GPUs of this machine", allow_abbrev=False)
    gpu.add_argument("--level", type=int, choices=sorted(LEVELS), default=1,
                     help="1: about 15 s, 2: 2 min, 3: 15 min; default: 1")  # fmt: skip
    gpu.add_argument("--json", action="store_true", help="one line of JSON on standard output")
    gpu.add_argument("--gpu", action="append", default=[],
                     help="index, UUID or bus id; given again: another one; default: all")  # fmt: skip
    gpu.add_argument("--network", action="store_true",
                     help="InfiniBand and RoCE ports, too, by an all-reduce over them alone")  # fmt: skip
    gpu.add_argument("--device", choices=("gpu", "cpu"), default="gpu",
                     help="cpu: the same checks on the processor, where there is no GPU")  # fmt: skip
    gpu.add_argument("--processes", type=int, choices=range(1, 5), default=1,
                     help="with --device cpu: how many stand for GPUs")  # fmt: skip
    return parser


def _names(target: DeviceUnderTest) -> set[str]:
    return {str(target.index), target.uuid, target.bus_id} - {""}


def _leave(report: Report) -> None:
    if directory := os.environ.get(JOB_DIRECTORY):
        with suppress(OSError):
            partial = Path(directory) / f"result.{os.getpid()}"
            partial.write_text(json.dumps(report.to_dict()))
            partial.replace(Path(directory) / "result.json")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
