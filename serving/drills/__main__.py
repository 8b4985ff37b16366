"""The command line: see this package's docstring."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from serving.drills.machine import BadOrder, carry_out
from serving.repairs.__main__ import leave

DONE, FAILED, USAGE = 0, 1, 2


def main(arguments: Sequence[str]) -> int:
    try:
        given, order = arguments
        document = json.loads(order)
        result = carry_out(Path(given), document)
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
