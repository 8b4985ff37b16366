"""The style guide shows every component, so what holds for it holds for the components."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.console.conftest import Tab

pytestmark = pytest.mark.browser

AXE = Path(__file__).resolve().parents[2] / "node_modules/axe-core/axe.min.js"
STANDARDS = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}


def faults(tab: Tab, *, only: Sequence[str] = ()) -> list[str]:
    """Return what axe finds wrong with the page as it is now, by all its rules or those named.

    Swagger UI's part is left out: it is not ours, and has ten thousand elements.
    """
    if not tab.page.evaluate("'axe' in window"):
        tab.page.evaluate(AXE.read_text())
    rules = {"type": "rule", "values": list(only)} if only else STANDARDS
    found = tab.page.evaluate(
        "rules => axe.run({exclude: [['#swagger-ui > *']]}, {runOnly: rules, resultTypes: ['violations']})",
        rules,
    )
    assert only or len(found["passes"]) > 10
    return [
        f"{fault['id']} at {node['target']}: {node['failureSummary']}"
        for fault in found["violations"]
        for node in fault["nodes"]
    ]


def faults_in_both_themes(tab: Tab) -> list[str]:
    """Return all faults of the light theme, and those of colours in the dark one: the rest is the same."""
    light = faults(tab)
    tab.page.emulate_media(color_scheme="dark")
    expect(tab.page.locator("html[data-bs-theme=dark]")).to_have_count(1)
    return light + faults(tab, only=["color-contrast", "link-in-text-block"])


@pytest.mark.parametrize(("theme", "width", "height"), [("light", 1280, 800), ("dark", 390, 844)])
def test_every_component_loads_without_a_complaint_and_fits_the_window(
    new_tab: Callable[..., Tab], theme: str, width: int, height: int
) -> None:
    tab = new_tab(theme=theme, width=width, height=height)
    tab.open("/styleguide/")
    assert tab.page.locator("html").get_attribute("data-bs-theme") == theme
    assert tab.page.locator(".u-wrap canvas").count() == 3
    needed, window = tab.sizes()
    assert needed <= window
    assert tab.violations() == []
    assert tab.complaints == []


def test_nothing_jumps_while_the_page_loads(tab: Tab) -> None:
    shifts = []
    while len(shifts) < 3 and min(shifts, default=1) >= 0.01:  # a jump of its own comes every time
        tab.open("/styleguide/")
        tab.page.wait_for_timeout(1500)
        shifts.append(tab.page.evaluate("window.shift"))
    assert min(shifts) < 0.01


@pytest.mark.parametrize(
    "opened", ["", *(pytest.param(dialog, marks=pytest.mark.slow) for dialog in ("#ask-abort", "#keys"))]
)
def test_labels_contrast_and_roles_pass_axe(tab: Tab, opened: str) -> None:
    tab.open("/styleguide/")
    if opened:
        tab.page.evaluate("id => document.querySelector(id).showModal()", opened)
    assert faults_in_both_themes(tab) == []


def test_static_files_are_hashed_compressed_and_kept_for_ever(tab: Tab) -> None:
    answers = []
    tab.page.on("response", lambda response: answers.append(response))
    tab.open("/styleguide/")
    static = [answer for answer in answers if "/static/" in answer.url]
    assert {answer.status for answer in static} == {200}
    assert all("immutable" in answer.headers["cache-control"] for answer in static)
    sheet = next(answer for answer in static if "tabler.min" in answer.url)
    assert sheet.headers["content-encoding"] in ("br", "gzip")
    assert len(sheet.body()) > 400_000


def test_the_policy_allows_only_our_own_scripts_and_styles(tab: Tab) -> None:
    response = tab.page.goto(tab.url + "/styleguide/")
    header = response.headers["content-security-policy"]
    policy = dict(part.strip().split(" ", 1) for part in header.split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["style-src"].split()[0] == "'self'"
    assert policy["script-src"].split()[0] == "'self'"
    assert "unsafe" not in header
    tab.page.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.broken = 1\">')"
    )
    tab.page.wait_for_function("window.violations.length")
    [violation] = tab.violations()
    assert violation.startswith("script-src-attr: inline")
    assert tab.page.evaluate("window.broken") is None
    tab.complaints.clear()


def test_charts_have_their_numbers_in_words(tab: Tab) -> None:
    tab.open("/styleguide/")
    words = tab.page.locator("#latency [role=img]").get_attribute("aria-label")
    assert words.startswith("Time to first token, P95: stable last")
    assert "limit objective at 60\u00a0ms" in words
    assert tab.page.locator("#latency table tbody tr").count() == 2


def test_charts_take_the_colours_of_the_theme(tab: Tab) -> None:
    tab.open("/styleguide/")
    # A pixel of the canvas is compared, because the canvas knows no CSS variable.
    sample = """(before) => {
      const canvas = document.querySelector("#evidence canvas");
      const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
      let sum = 0;
      for (let i = 0; i < data.length; i += 4) sum += data[i] * (data[i + 3] / 255);
      return sum !== before && sum;
    }"""
    light = tab.page.evaluate(sample)
    tab.page.evaluate("window.dispatchEvent(new CustomEvent('slipway:theme', {detail: 'dark'}))")
    tab.page.wait_for_function(sample, arg=light)
    assert tab.complaints == []


def seconds_of(clock: str) -> int:
    hours, minutes, seconds = map(int, clock.split(":"))
    return hours * 3600 + minutes * 60 + seconds


def test_a_chart_of_one_reading_begins_with_it_and_spans_half_a_minute(tab: Tab) -> None:
    tab.page.add_init_script("""
      window.painted = new Map();
      const paint = CanvasRenderingContext2D.prototype.fillText;
      CanvasRenderingContext2D.prototype.fillText = function (text, ...where) {
        window.painted.set(text, this.canvas.closest("[data-chart]")?.id);
        return paint.call(this, text, ...where);
      };
    """)
    tab.open("/styleguide/")
    of_chart = "[...window.painted].filter(([_, chart]) => chart === 'lone').map(([text]) => text)"
    painted = tab.page.evaluate(of_chart)
    # A time that the edge would cut is painted as nothing.
    times = [text for text in painted if ":" in text or not text]
    assert len(times) >= 2, painted
    data = "JSON.parse(document.getElementById(document.getElementById('lone').dataset.chart).textContent)"
    began = tab.page.evaluate(f"new Date({data}.x[0] * 1000).toTimeString().slice(0, 8)")
    after = [(seconds_of(text) - seconds_of(began)) % 86_400 for text in times if text]
    assert after, painted
    assert max(after) <= 30, (began, painted)
    assert not any("Jan" in text for text in painted), painted


@pytest.mark.parametrize("path", ["/accounts/login/", "/search/?q=nothing", "/no/such/page/"])
def test_pages_around_the_console_pass_axe(new_tab: Callable[..., Tab], path: str) -> None:
    tab = new_tab(width=390, height=844, signed_in="login" not in path)
    tab.open(path)
    assert faults_in_both_themes(tab) == []
    assert tab.violations() == []
    needed, window = tab.sizes()
    assert needed <= window
