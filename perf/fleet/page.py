"""The fleet's page in a real Chromium while thousands of machines report each second."""

import time
from collections.abc import Iterator

from playwright.sync_api import Page, WebSocket

from perf.fleet.reports import WARM_UP_SECONDS, reporting_together
from perf.fleet.served import served_fleet
from perf.required import RequiredFigure, at_most
from tests.browser import chromium

MACHINES = 2_000
MOST_SCRIPTING = 0.1
"""Of a core."""
VIEWS = {"by group": "/fleet/", "by rack": "/fleet/?by=rack"}
"""By group they are too many for cells of their own; by rack each has one."""


def figures(seconds: float) -> Iterator[RequiredFigure]:
    """Yield the share of a core that the page's scripts, styles and layout take."""
    with (
        served_fleet(machines=MACHINES, workers_per_machine=1) as fleet,
        reporting_together(fleet),
        chromium() as browser,
    ):
        url = f"http://127.0.0.1:{fleet.port}"
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        name, value = fleet.cookie
        context.add_cookies([{"name": name, "value": value, "url": url}])
        time.sleep(WARM_UP_SECONDS)
        for words, path in VIEWS.items():
            tab = context.new_page()
            yield from _figures_of(tab, f"{url}{path}", f"{MACHINES:,} machines {words}", seconds)
            tab.close()


def _figures_of(tab: Page, url: str, name: str, seconds: float) -> Iterator[RequiredFigure]:
    frames: list[int] = []

    def count(socket: WebSocket) -> None:
        socket.on("framereceived", lambda text: frames.append(len(text)))

    tab.on("websocket", count)
    tab.goto(url)
    tab.wait_for_selector('[data-live-state="live"]', timeout=60_000)
    tab.wait_for_timeout(WARM_UP_SECONDS * 1000)
    devtools = tab.context.new_cdp_session(tab)
    # Of CPU time, so that others on the machine do not change it.
    devtools.send("Performance.setTimeDomain", {"timeDomain": "threadTicks"})
    devtools.send("Performance.enable")

    def metrics() -> dict[str, float]:
        return {one["name"]: one["value"] for one in devtools.send("Performance.getMetrics")["metrics"]}

    before, began = metrics(), time.monotonic()
    frames.clear()
    tab.wait_for_timeout(seconds * 1000)
    after, took = metrics(), time.monotonic() - began
    shares = {one: (after[one] - before[one]) / took for one in before if one.endswith("Duration")}
    yield at_most(f"{name}: scripting, share of a core", shares["ScriptDuration"], MOST_SCRIPTING)
    yield RequiredFigure("  styles", f"{shares['RecalcStyleDuration']:.3f}")
    yield RequiredFigure("  layout", f"{shares['LayoutDuration']:.3f}")
    yield RequiredFigure("  all of the page's main thread", f"{shares['TaskDuration']:.3f}")
    yield RequiredFigure("  frames per second", f"{len(frames) / took:.2f}")
    yield RequiredFigure("  size of a frame", f"{sum(frames) / max(1, len(frames)):,.0f} bytes")
    yield RequiredFigure("  size of the page", f"{len(tab.content()):,} bytes")
