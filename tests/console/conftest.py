from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, WebSocketRoute, expect

from tests.browser import chromium
from tests.console.server import ConsoleServer
from tests.patience import PATIENCE_SECONDS

HERE = Path(__file__).parent
expect.set_options(timeout=1_000 * PATIENCE_SECONDS)
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (broken) =>
  window.violations.push(`${broken.violatedDirective}: ${broken.blockedURI} ${broken.sourceFile}`));
window.shift = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shift += entry.value;
}).observe({ type: "layout-shift", buffered: true });
"""


@pytest.fixture(scope="package")
def server() -> Iterator[ConsoleServer]:
    console = ConsoleServer()
    yield console
    console.stop()


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@dataclass
class Tab:
    """A browser tab of a signed-in person, and everything that it complained about."""

    page: Page
    url: str
    complaints: list[str] = field(default_factory=list)
    socket: WebSocketRoute | None = None
    """The newest live socket that the page opened; this test is its server."""
    sockets_opened: int = 0
    heard: list[Any] = field(default_factory=list)
    """What the page sent over its sockets."""

    def open(self, path: str) -> None:
        """Scripts have run when this returns, and charts are drawn."""
        self.page.goto(self.url + path)
        expect(self.page.locator("[data-chart]:not([data-drawn])")).to_have_count(0)

    def sizes(self) -> tuple[int, int]:
        """Return the widths of page and window: equal, or the page scrolls sideways."""
        root = "document.documentElement"
        return tuple(self.page.evaluate(f"[{root}.scrollWidth, {root}.clientWidth]"))

    def violations(self) -> list[str]:
        return self.page.evaluate("window.violations")


@pytest.fixture(scope="package")
def profile(browser: Browser) -> Iterator[BrowserContext]:
    """The profile of all tabs: static files, which never change, are fetched and compiled once."""
    context = browser.new_context(reduced_motion="reduce")
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    yield context
    context.close()


@pytest.fixture
def new_tab(profile: BrowserContext, server: ConsoleServer) -> Iterator[Callable[..., Tab]]:
    """Make tabs of one person, whose browser remembers nothing of the test before."""

    def make(
        *,
        theme: str = "light",
        width: int = 1280,
        height: int = 800,
        live: bool = True,
        signed_in: bool = True,
    ) -> Tab:
        profile.clear_cookies()
        if signed_in:
            profile.add_cookies([{"name": "sessionid", "value": server.session, "url": server.url}])
        page = profile.new_page()
        forget = {"origin": server.url, "storageTypes": "local_storage"}
        profile.new_cdp_session(page).send("Storage.clearDataForOrigin", forget)
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=theme)
        page.set_default_timeout(PATIENCE_SECONDS * 1000)
        tab = Tab(page, server.url)
        page.add_init_script(WATCH)
        page.on("pageerror", lambda error: tab.complaints.append(f"error: {error}"))
        page.on(
            "console",
            lambda said: tab.complaints.append(said.text) if said.type in ("error", "warning") else None,
        )

        def serve(socket: WebSocketRoute) -> None:
            tab.socket = socket
            tab.sockets_opened += 1
            if not live:
                socket.close(code=1013)
                return
            socket.on_message(lambda text: tab.heard.append(text))

        page.route_web_socket("**/ws/live/", serve)
        return tab

    tabs: list[Tab] = []
    yield lambda **options: tabs.append(tab := make(**options)) or tab
    for page in profile.pages:
        page.close()
    assert [said for tab in tabs for said in tab.complaints if "Content Security Policy" in said] == []


@pytest.fixture
def tab(new_tab: Callable[..., Tab]) -> Tab:
    return new_tab()
