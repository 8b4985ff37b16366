"""The command line: see this package's docstring."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from serving.drills.machine import BadOrder, carry_out
from serving.repairs.__main__ import leave

DONE, FAILED, USAGE = 0, 1, 2
THE_MACHINE = Path("/proc/1/root")


def main(arguments: Sequence[str]) -> int:
    try:
        given, order = arguments
        document = json.loads(order)
        directory = Path(given)
        if "KUBERNETES_SERVICE_HOST" in os.environ:
            directory = THE_MACHINE / directory.relative_to("/")
        result = carry_out(directory, document)
    except ValueError as error:
        words = str(error) if isinstance(error, BadOrder) else "Takes a directory and an order as JSON."
        sys.stderr.write(f"serving.drills: {words}\n")
        return USAGE
    except OSError as error:
        sys.stderr.write(f"serving.drills: {error.filename or arguments[0]}: {error.strerror}\n")
        return FAILED
    leave(result)
    sys.stdout.write(json.dumps(result) + "\n")
    return DONE if result.get("done") or result.get("passed") else FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
