"""What a page says while a newer answer is on its way, and what stays when the answer is there."""

import re

import pytest
from playwright.sync_api import FloatRect, Locator, Route, expect

from tests.console.conftest import Tab
from tests.console.server import ConsoleServer

pytestmark = pytest.mark.browser
AWAITED = re.compile(r"\bis-awaited\b")


def held(tab: Tab, pattern: str) -> list[Route]:
    """The requests of the page to such an address: none is answered before the test lets it."""
    routes: list[Route] = []
    tab.page.route(pattern, lambda route: routes.append(route))
    return routes


def swap(tab: Tab, html: str) -> None:
    """Replace a part of the page as an answer of the server does."""
    tab.page.evaluate("html => htmx.swap('#here', html, { swapStyle: 'outerHTML' })", html)


def place(tab: Tab) -> None:
    """A part of the page that answers replace."""
    tab.open("/styleguide/")
    tab.page.evaluate("document.querySelector('main').insertAdjacentHTML('beforeend', '<div id=here></div>')")


def test_results_of_an_earlier_question_are_marked_until_the_answer_is_there(tab: Tab) -> None:
    tab.open("/models/")
    results = tab.page.locator(tab.page.locator("form.filters").get_attribute("hx-target") or "")
    expect(results).not_to_have_class(AWAITED)
    questions = held(tab, "**/models/?*")
    tab.page.locator("form.filters input").first.press_sequentially("llama")
    expect(results).to_have_class(AWAITED)
    assert float(results.evaluate("found => getComputedStyle(found).opacity")) < 1
    tab.page.wait_for_timeout(400)
    expect(results).to_have_class(AWAITED)
    questions[-1].continue_()
    expect(results).not_to_have_class(AWAITED)
    assert tab.complaints == []


def test_a_plan_that_is_checked_again_is_not_called_valid_meanwhile(tab: Tab, server: ConsoleServer) -> None:
    server.run("from accounts.models import Team; Team.objects.get_or_create(name='planners')")
    tab.open("/settings/plans/+new/")
    check = tab.page.locator("#preview")
    expect(check.get_by_text("A valid plan")).to_be_visible()
    expect(check.get_by_text("Checking")).not_to_be_visible()
    questions = held(tab, "**/settings/plans/+new/")
    tab.page.locator("#editor").get_by_label("Name").fill("careful")
    expect(check.get_by_text("Checking")).to_be_visible()
    expect(check.get_by_text("A valid plan")).not_to_be_visible()
    tab.page.wait_for_timeout(500)
    questions[-1].continue_()
    expect(check.get_by_text("Checking")).not_to_be_visible()
    expect(check.get_by_text("A valid plan")).to_be_visible()


def test_a_shadow_tells_at_which_edge_there_is_more(tab: Tab) -> None:
    tab.page.set_viewport_size({"width": 1280, "height": 1400})
    place(tab)
    swap(tab, '<section id="here" class="panel"><div class="card-box" tabindex="0"><p></p></div></section>')
    box = tab.page.locator("#here > div")
    box.evaluate("box => { box.firstChild.style.height = '2000px'; }")
    assert shadows(box, 0) == (False, True)
    assert shadows(box, 500) == (True, True)
    assert shadows(box, 9_999) == (True, False)


def shadows(box: Locator, scrolled: int) -> tuple[bool, bool]:
    """Whether the upper and the lower edge are darker than the middle."""
    box.evaluate("(box, to) => box.scrollTo({ top: to, behavior: 'instant' })", scrolled)
    box.scroll_into_view_if_needed()
    area = box.bounding_box()
    assert area

    def strip(y: float) -> bytes:
        clip: FloatRect = {"x": area["x"] + 20, "y": area["y"] + y, "width": 80, "height": 3}
        return box.page.screenshot(clip=clip)

    plain = strip(area["height"] / 2)
    return strip(0) != plain, strip(area["height"] - 3) != plain


def test_a_fold_that_somebody_opened_stays_open_when_news_replace_its_part(tab: Tab) -> None:
    place(tab)
    part = '<div id="here"><details id="fold-test"><summary>Events</summary><p>{} events</p></details></div>'
    swap(tab, part.format(3))
    tab.page.locator("#fold-test summary").click()
    swap(tab, part.format(4))
    expect(tab.page.get_by_text("4 events")).to_be_visible()
    tab.page.locator("#fold-test summary").click()
    swap(tab, part.format(5))
    expect(tab.page.get_by_text("5 events")).not_to_be_visible()


def test_a_card_of_a_phone_names_its_columns_but_not_that_of_its_buttons(tab: Tab) -> None:
    tab.page.set_viewport_size({"width": 390, "height": 844})
    place(tab)
    head = '<th>Name</th><th>Last used</th><th><span class="visually-hidden">Revoke</span></th>'
    row = "<th>ci</th><td>never</td><td><button>Revoke</button></td>"
    table = f'<table class="table"><thead><tr>{head}</tr></thead><tbody><tr>{row}</tr></tbody></table>'
    swap(tab, f'<div id="here"><div class="table-box">{table}</div></div>')
    labels = "getComputedStyle(cell, '::before').content"
    said = tab.page.locator("#here td").evaluate_all(f"cells => cells.map((cell) => {labels})")
    assert said == ['"Last used"', "none"]
