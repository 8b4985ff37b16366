import argparse
import os
import subprocess
import sys

from perf import registry
from perf.registry import collection, hub, imports, lists, peers, push
from perf.registry.table import ROOT, database

PARTS = ("import", "hub", "push", "lists", "collection", "peers")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m perf.registry",
        description=registry.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all but peers unless given"
    )
    parser.add_argument("--gigabytes", type=float, default=4.0, help="that are imported")
    parser.add_argument("--hub-gigabytes", type=float, default=1.0, help="that are fetched")
    parser.add_argument("--push-mebibytes", type=int, default=128, help="that are pushed")
    parser.add_argument("--line", type=float, default=8.0, help="of the push, in MiB/s")
    parser.add_argument("--models", type=int, default=2000)
    parser.add_argument("--versions", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--peer-models", type=int, default=300)
    parser.add_argument("--peer-versions", type=int, default=20)
    parser.add_argument("--peer-rounds", type=int, default=5)
    parser.add_argument("--blobs", type=int, default=100_000)
    parser.add_argument("--database", choices=("sqlite", "postgres"), help="of lists; both unless given")
    options = parser.parse_args()
    parts = options.parts or PARTS[:-1]
    if unknown := set(parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; parts are {', '.join(PARTS)}")
    if "import" in parts:
        imports.measure(options.gigabytes)
    if "hub" in parts:
        hub.measure(options.hub_gigabytes)
    if "push" in parts:
        push.measure(options.push_mebibytes, options.line)
    if "lists" in parts:
        if options.database:
            measure_lists(options)
        else:
            # Django is set up for one database in a process.
            for name in ("sqlite", "postgres"):
                again = [sys.executable, "-m", "perf.registry", "lists", "--database", name]
                sizes = ("models", "versions", "rounds")
                again += [f"--{size}={getattr(options, size)}" for size in sizes]
                subprocess.run(again, check=True, cwd=ROOT)
    if "peers" in parts:
        peers.measure(options.peer_models, options.peer_versions, options.peer_rounds)
    if "collection" in parts:
        with database():
            collection.measure(options.blobs)


def measure_lists(options: argparse.Namespace) -> None:
    sizes = {"models": options.models, "versions": options.versions, "rounds": options.rounds}
    if options.database == "sqlite":
        os.environ["SLIPWAY_DATABASE_URL"] = ""
        with database():
            lists.measure(**sizes)
        return
    from tests.postgres import PostgresServer

    server = PostgresServer()
    try:
        os.environ["SLIPWAY_DATABASE_URL"] = server.url
        with database():
            lists.measure(**sizes)
    finally:
        server.stop()


if __name__ == "__main__":
    main()
