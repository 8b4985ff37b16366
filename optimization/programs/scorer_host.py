"""Run a team's scorer: its file is the argument, pairs of item and answer are read from standard input.

It is started as a process of its own, in isolated mode, by `script_scoring`. What the scorer prints goes to
the log.
"""

import json
import math
import os
import runpy
import sys


def main() -> None:
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    score = runpy.run_path(sys.argv[1], run_name="scorer")["score"]
    for line in sys.stdin:
        pair = json.loads(line)
        found = float(score(pair["item"], pair["answer"]))
        if not (math.isfinite(found) and 0 <= found <= 1):
            raise ValueError(f"score gave {found} for an item; it must be a number from 0 to 1")
        told.write(f"{found!r}\n")
    told.flush()


if __name__ == "__main__":
    main()
