"""`python -m perf.capacity laws|backlog|fragments|plan [--days 7] [--seeds 3] [--trace DIR]`."""

import argparse
from pathlib import Path

from perf.capacity import backlogs, fragments, laws, plan

parser = argparse.ArgumentParser(prog="python -m perf.capacity")
parser.add_argument("table", choices=["laws", "backlog", "fragments", "plan"])
parser.add_argument("--days", type=int, default=7)
parser.add_argument("--seeds", type=int, default=3)
parser.add_argument(
    "--trace", type=Path, help="a directory with the CSV files of AzureLLMInferenceTrace 2023"
)
arguments = parser.parse_args()
if arguments.table == "laws":
    laws.report(arguments.days, arguments.seeds, arguments.trace)
elif arguments.table == "backlog":
    backlogs.report(arguments.seeds)
elif arguments.table == "fragments":
    fragments.report(arguments.seeds)
else:
    plan.report()
