"""The browser of the tests that drive one: Chromium, as the machine has it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""Best first: the shell has no windows to draw, and computes a third of what the others do."""
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-software-rasterizer",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A Chromium. While it lives, no other event loop runs in this process."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        raise RuntimeError(
            "There is no Chromium: bin/test installs one (apt-get install chromium-headless-shell)."
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()
