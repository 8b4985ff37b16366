"""The job that asks AIConfigurator what configurations would serve: `python -m benchmarks.estimates` with
`{environments, models, orders}` as JSON on standard input. `models`: config.json of each by a name; of orders
see `inside`.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from common.jobs.run import Running, read_json, run
from serving.environments import EnvironmentNotMade, LockedEnvironment, ensure_held
from serving.leash import end_with_parent

NAME = "AIConfigurator 0.12.0"
LOCKED_FOR_PYTHON = "3.11"
ESTIMATE_SECONDS = 900.0
"""So long it estimates at most; one configuration takes 1 to 4 s for each batch that is tried."""


def environment() -> LockedEnvironment:
    lock = files("benchmarks.estimates").joinpath("locks", "aiconfigurator.txt").read_text()
    return LockedEnvironment(name="aiconfigurator", lock=lock, python=LOCKED_FOR_PYTHON)


def estimate(order: Mapping[str, Any], tell: Any) -> dict[str, Any]:
    """Return `{by, rates, refused}`: requests/s by the orders' keys, and why there is none for how many; or
    `{failed}`. What is not reached in time is left out."""
    tell({"stage": "estimates", "done": 0, "total": len(order["orders"])})
    try:
        place = ensure_held(environment(), Path(order["environments"]))
    except EnvironmentNotMade as error:
        return {"failed": f"AIConfigurator cannot be installed: {error}"}  # untranslated: a job's own words
    rates: dict[str, float] = {}
    refused: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="slipway-estimates-") as directory:
        for name, config in order["models"].items():
            (Path(directory) / name).mkdir()
            (Path(directory) / name / "config.json").write_text(json.dumps(config))
        for told in _answers(place, directory, order["orders"]):
            if "rate" in told:
                rates[told["key"]] = told["rate"]
            else:
                refused[told["refused"]] += 1
            done = len(rates) + refused.total()
            tell({"stage": "estimates", "done": done, "total": len(order["orders"])})
    if not rates and not refused:
        return {"failed": "AIConfigurator ended without an estimate."}
    return {"by": NAME, "rates": rates, "refused": dict(refused.most_common(3))}


def _answers(place: Path, directory: str, orders: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    program = Path(__file__).with_name("inside.py")
    with tempfile.TemporaryFile("w+") as stdin:
        stdin.writelines(json.dumps(one) + "\n" for one in orders)
        stdin.seek(0)
        child = subprocess.Popen(
            [place / "bin" / "python", "-I", "-W", "ignore", program, directory],
            stdin=stdin,
            stdout=subprocess.PIPE,
            # An address that nobody listens at: it has the model's configuration, and downloads nothing.
            env={"PATH": os.environ.get("PATH", ""), "HOME": directory, "HF_ENDPOINT": "http://127.0.0.1:9"},
            preexec_fn=end_with_parent,
        )
    at_last = threading.Timer(ESTIMATE_SECONDS, child.kill)
    at_last.start()
    with child:
        yield from map(json.loads, child.stdout or ())
    at_last.cancel()


def _as_job(running: Running) -> Mapping[str, Any]:
    return estimate(read_json(), running.report)


if __name__ == "__main__":
    sys.exit(run(_as_job))
