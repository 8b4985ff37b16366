"""The command line: see this package's docstring."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

DONE, FAILED, USAGE = 0, 1, 2
JOB_DIRECTORY = "SLIPWAY_JOB_DIR"
"""Where a job of the control plane's machine leaves its result."""
ON_THE_MACHINE = ("nsenter", "--target", "1", "--mount", "--uts", "--ipc", "--net", "--pid", "--")
MOST_OUTPUT = 64 * 1024


def main(arguments: Sequence[str]) -> int:
    try:
        (given,) = arguments
        commands = json.loads(given)
        plans = [
            (
                [str(word) for word in one["argv"]],
                float(one.get("seconds", 120)),
                bool(one.get("always")),
                bool(one.get("may_fail")),
            )
            for one in commands
        ]
    except (ValueError, KeyError, TypeError):
        sys.stderr.write("serving.repairs takes a list of commands as JSON; see its docstring.\n")
        return USAGE
    told: list[dict[str, Any]] = []
    failure = ""
    for argv, seconds, always, may_fail in plans:
        if failure and not always:
            continue
        found = run(argv, seconds)
        told.append(found)
        if found["status"] != 0 and not may_fail and not failure:
            said = found["output"].strip().splitlines()
            failure = f"{' '.join(argv)[:200]}: {said[-1][:300] if said else found['status']}"
    result = {"done": not failure, "words": failure or "All commands were run.", "commands": told}
    leave(result)
    sys.stdout.write(json.dumps(result, separators=(",", ":")) + "\n")
    return FAILED if failure else DONE


def run(argv: Sequence[str], seconds: float) -> dict[str, Any]:
    """`status` is that of a shell: 127 there is no such program, 124 it took too long."""
    prefix = ON_THE_MACHINE if "KUBERNETES_SERVICE_HOST" in os.environ else ()
    try:
        done = subprocess.run(
            [*prefix, *argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            check=False,
        )
        status, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as error:
        status, output = 124, (error.output or b"") + f"\ntook more than {seconds:g} s".encode()
    except OSError as error:
        status, output = 127, str(error).encode()
    return {"argv": list(argv), "status": status, "output": output[-MOST_OUTPUT:].decode("utf-8", "replace")}


def leave(result: dict[str, Any]) -> None:
    if directory := os.environ.get(JOB_DIRECTORY):
        with suppress(OSError):
            partial = Path(directory) / f"result.{os.getpid()}"
            partial.write_text(json.dumps(result))
            partial.replace(Path(directory) / "result.json")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
