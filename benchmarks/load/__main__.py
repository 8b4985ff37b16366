"""Run a scenario against servers: `python -m benchmarks.load` with its order as JSON on standard input.

As a job (`common.jobs`) it notes progress and result there; records are written to `records.jsonl.gz`.
In a cluster `--fetch FILE` names where it finds the control plane's address and its token.
By hand: `python -m benchmarks.load --scenario FILE --url http://127.0.0.1:9000 --model NAME`.
"""

import argparse
import gzip
import json
import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.figures import summarise
from benchmarks.load import course, records
from benchmarks.load.aiperf import AiperfEngine, AiperfFailed
from benchmarks.load.builtin import BuiltinEngine
from benchmarks.load.engine import LoadEngine, LoadTarget, TooFewCores, UnfitScenario
from benchmarks.load.records import WindowRecord
from benchmarks.load.remote import ControlPlaneOrder
from benchmarks.load.scenario import ScenarioFaults, scenario_of
from benchmarks.load.system import SystemSources, sampling
from benchmarks.load.system_series import series_of
from common.jobs.notes import DIRECTORY
from common.jobs.run import Running, read_json, run
from serving.environments import EnvironmentNotMade

ENVIRONMENTS_VARIABLE = "SLIPWAY_ENVIRONMENTS"


def measure(order: Mapping[str, Any], directory: Path, tell: Any) -> dict[str, Any]:
    """Carry out the order `{scenario, addresses, model, token?, price_per_hour?, engine?, environments?,
    system?}`; return the figures of each window, or why there are none.

    Raises EnvironmentNotMade, AiperfFailed.
    """
    scenario = scenario_of(order["scenario"])
    target = LoadTarget(tuple(order["addresses"]), order["model"], order.get("token", ""))
    price = order.get("price_per_hour")

    found: list[WindowRecord] = []
    if order.get("engine") == AiperfEngine.name:
        tell("environment", 0, 0)
        engine: LoadEngine = AiperfEngine(Path(order["environments"]), directory)
    else:
        engine = BuiltinEngine()
    sources = SystemSources(servers=target.addresses, **order.get("system", {}))
    with sampling(sources, directory) as sampled:
        try:
            found.extend(course.windows(engine, scenario, target, tell=tell))
        except (course.SmokeFailed, TooFewCores, UnfitScenario) as error:
            return {"failed": str(error)}
        system = sampled()
    with gzip.open(directory / records.RECORDS_FILE, "wt") as file:
        records.write(found, file, system)
    return {
        "engine": engine.name,
        "summaries": [summarise(one, scenario, price_per_hour=price).as_json() for one in found],
        "heads": [one.head() for one in found],
        "system": series_of(system),
    }


def _measured(order: Mapping[str, Any], directory: Path, tell: Any) -> dict[str, Any]:
    try:
        return measure(order, directory, tell)
    except (EnvironmentNotMade, AiperfFailed) as error:
        raise SystemExit(str(error)) from None


def _as_job(running: Running) -> Mapping[str, Any]:
    def tell(stage: str, window: int, rate: float) -> None:
        running.report({"stage": stage, "window": window, "rate": rate})

    return _measured(read_json(), Path(os.environ[DIRECTORY]), tell)


def _in_cluster(_running: Running, path: Path) -> Mapping[str, Any]:
    control_plane, directory = ControlPlaneOrder.of_file(path), Path(os.environ[DIRECTORY])

    def tell(stage: str, window: int, rate: float) -> None:
        control_plane.tell({"stage": stage, "window": window, "rate": rate})

    # Those of its image; one that is not there is made for this job alone.
    environments = os.environ.get(ENVIRONMENTS_VARIABLE) or str(directory / "environments")
    order = {**control_plane.read(), "environments": environments}
    result = _measured(order, directory, tell)
    control_plane.hand_in(directory / records.RECORDS_FILE, result)
    return result


def _by_hand(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load", description=__doc__.splitlines()[0])
    parser.add_argument("--scenario", type=Path, required=True, help="JSON file with the scenario")
    parser.add_argument("--url", action="append", required=True, help="address of a server; repeatable")
    parser.add_argument("--model", required=True, help="model's name in requests")
    parser.add_argument("--engine", choices=("builtin", "aiperf"), default="builtin")
    parser.add_argument(
        "--environments", type=Path, default=Path("environments"), help="for AIPerf's packages"
    )
    parser.add_argument("--records", type=Path, default=Path(), help="directory for records.jsonl.gz")
    given = parser.parse_args(arguments)
    order = {
        "scenario": json.loads(given.scenario.read_text()),
        "addresses": given.url,
        "model": given.model,
        "engine": given.engine,
        "environments": str(given.environments),
    }
    try:
        result = measure(order, given.records, lambda *told: sys.stderr.write(f"{told}\n"))
    except (ScenarioFaults, EnvironmentNotMade, AiperfFailed) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(json.dumps(result, indent=2) + "\n")
    return 1 if "failed" in result else 0


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--fetch"] and len(arguments) == 2:
        return run(partial(_in_cluster, path=Path(arguments[1])))
    return _by_hand(arguments) if arguments else run(_as_job)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
