"""`python -m perf.capacity laws|backlog|fragments|plan|groups [--days 7] [--seeds 3] [--trace DIR]`."""

import argparse
from pathlib import Path

from perf.capacity import backlogs, fragments, groups, laws, plan

parser = argparse.ArgumentParser(prog="python -m perf.capacity")
parser.add_argument("table", choices=["laws", "backlog", "fragments", "plan", "groups"])
parser.add_argument("--days", type=int, default=7)
parser.add_argument("--seeds", type=int, default=3)
parser.add_argument(
    "--trace", type=Path, help="a directory with the CSV files of AzureLLMInferenceTrace 2023"
)
parser.add_argument("--home", type=Path, default=Path("var"), help="of the stack that runs, for `groups`")
parser.add_argument("--url", default="http://127.0.0.1:8000")
parser.add_argument("--gateway-url", default="http://127.0.0.1:8080")
arguments = parser.parse_args()
if arguments.table == "laws":
    laws.report(arguments.days, arguments.seeds, arguments.trace)
elif arguments.table == "backlog":
    backlogs.report(arguments.seeds)
elif arguments.table == "groups":
    raise SystemExit(groups.run(arguments.home, arguments.url, arguments.gateway_url))
elif arguments.table == "fragments":
    fragments.report(arguments.seeds)
else:
    plan.report()
