"""What webs on PostgreSQL cost and keep: `python -m perf.production [--clients 20] [--sockets 50 500]`.

PostgreSQL and Valkey of its own, the roles as docs/PRODUCTION.md has them. Clients read lists over REST, then
browsers follow a release: first with one web, then, in the same run, spread over two of the same home.
Own CPU is that of the web processes (user and system); connections are those that PostgreSQL counts.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from perf.production import lists, sockets
from perf.required import RequiredFigure, at_most
from perf.required import report as required
from tests.production.site import Host, Role, Site

BOUND = 24


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--many", type=int, default=100, help="clients at a time, to see the bound")
    parser.add_argument("--requests", type=int, default=40, help="of each client")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sockets", type=int, nargs="*", default=[50, 500])
    parser.add_argument("--seconds", type=float, default=20, help="that the sockets are looked at")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="slipway-perf-") as home:
        site = Site(Path(home), SLIPWAY_DATABASE_CONNECTIONS=str(BOUND), SLIPWAY_LOG_LEVEL="WARNING")
        try:
            first = site.host()
            first.prepare()
            webs = [first.web()]
            rows, second = read_lists(site, first, webs, options)
            for count in options.sockets:
                rows += follow_release(site, (first, second), webs, count, options.seconds)
            return required(rows)
        finally:
            site.close()


def read_lists(
    site: Site, first: Host, webs: list[Role], options: argparse.Namespace
) -> tuple[list[RequiredFigure], Host]:
    """The figures, and the second host, whose web is now the second of `webs`."""
    one: list[lists.ListLoad] = []
    two: list[lists.ListLoad] = []
    each, all_at_once = options.requests, max(options.requests // 4, 1)
    many = lists.measure(site, [first], webs, clients=options.many, requests=all_at_once)
    second = first.twin()
    webs.append(second.web())
    both = [first, second]
    lists.measure(site, both, webs, clients=4, requests=8)  # what is loaded on first use
    for _ in range(options.rounds):
        one.append(lists.measure(site, [first], webs[:1], clients=options.clients, requests=each))
        two.append(lists.measure(site, both, webs, clients=options.clients, requests=each))
    alone, shared = (statistics.median(seen.milliseconds for seen in rounds) for rounds in (one, two))
    return [
        RequiredFigure("own CPU per request, one web", f"{alone:.1f} ms"),
        RequiredFigure("own CPU per request, two webs", f"{shared:.1f} ms"),
        at_most("the same, two webs / one", shared / alone, 1.25),
        at_most("requests that failed", sum(seen.errors for seen in (*one, *two, many)), 0),
        at_most(f"connections of one web, {options.many} clients", many.connections, BOUND),
        at_most("connections of two webs", max(seen.connections for seen in two), 2 * BOUND),
    ], second


def follow_release(
    site: Site, hosts: Sequence[Host], webs: Sequence[Role], count: int, seconds: float
) -> list[RequiredFigure]:
    sockets.make_release(hosts[0])
    alone = sockets.measure(site, hosts[:1], webs[:1], count=count, seconds=seconds)
    shared = sockets.measure(site, hosts, webs, count=count, seconds=seconds)
    return [
        RequiredFigure(f"{count} sockets: own CPU per frame, one web", f"{alone.microseconds:.0f} us"),
        RequiredFigure(f"{count} sockets: own CPU per frame, two webs", f"{shared.microseconds:.0f} us"),
        RequiredFigure(
            f"{count} sockets: frames a socket and second", f"{alone.rate:.2f}, {shared.rate:.2f}"
        ),
        at_most(f"{count} sockets that ended early or saw nothing", alone.errors + shared.errors, 0),
        at_most(f"{count} sockets: connections of two webs", shared.connections, 2 * BOUND),
    ]


if __name__ == "__main__":
    sys.exit(main())
