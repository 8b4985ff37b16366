import argparse
import sys

import numpy as np

from perf import judge
from perf.judge.certificates import compare_certificates
from perf.judge.eprocesses import disagreement
from perf.judge.grid import CONDITIONS, RPS, compare_grid
from perf.judge.late_defects import compare_late_defects
from perf.judge.rules import compare_rules
from perf.judge.sessions import compare_sessions
from perf.judge.whole import cost_of_a_look, show_quick_plan


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m perf.judge", description=judge.__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument(
        "--grid",
        action="store_true",
        help="load x risk ratio x trouble instead; --runs is the number of seeds of a cell",
    )
    parser.add_argument(
        "--rps", type=float, nargs="*", default=list(RPS), choices=RPS, help="rows of the grid"
    )
    parser.add_argument("--condition", nargs="*", default=list(CONDITIONS), choices=list(CONDITIONS))
    options = parser.parse_args()
    if options.grid:
        broken = compare_grid(
            options.seed, options.runs, rps=tuple(options.rps), conditions=tuple(options.condition)
        )
        print("\n".join(broken) if broken else "Every cell keeps what the judge promises.")
        return bool(broken)
    rng = np.random.default_rng(options.seed)
    apart = disagreement(rng)
    if apart > 1e-9:
        print(f"the simulation and the judge disagree by {apart:g}", file=sys.stderr)
        return 1
    compare_rules(rng, options.runs)
    compare_certificates(rng, options.runs)
    compare_late_defects(rng, max(options.runs // 10, 50))
    compare_sessions(rng, max(options.runs // 4, 50))
    show_quick_plan(rng, max(options.runs // 40, 20))
    cost_of_a_look()
    return 0


if __name__ == "__main__":
    sys.exit(main())
