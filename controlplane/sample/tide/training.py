"""A workload of the tide sample: counts its steps, and writes a checkpoint when it is asked for one."""

import os
import sys
import time
from pathlib import Path

STEP_SECONDS = 1.0
SAYS_EVERY = 30


def main() -> None:
    last = int(sys.argv[1])
    directory = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"])
    kept, requested, done = directory / "step", directory / "requested", directory / "done"
    step = int(kept.read_text()) if kept.exists() else 0
    _say(f"begins at step {step}")
    while step < last:
        time.sleep(STEP_SECONDS)
        step += 1
        asked = requested.read_text() if requested.exists() else ""
        if asked and not (done.exists() and done.read_text() == asked):
            kept.write_text(str(step))
            done.write_text(asked)
            _say(f"checkpoint at step {step}")
        elif step % SAYS_EVERY == 0:
            _say(f"step {step} of {last}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
