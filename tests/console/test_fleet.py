"""The fleet's page in a browser: filters, groupings and the heat map."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.console.conftest import Tab
from tests.console.server import ConsoleServer
from tests.patience import eventually

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("machines")]
MAKE = """
from django.utils import timezone
from clusters.models import Cluster, Node
cluster = Cluster.objects.create(name="west", kind="kubernetes", revision=1)
for number in range(12):
    Node.objects.create(
        cluster=cluster, uid=f"box-{number}", name=f"box-{number:02}", state="ready", seen_at=timezone.now(),
        labels={"topology.kubernetes.io/rack": f"rack-{number % 2}"},
    )
"""
REMOVE = """
from clusters.models import Cluster, Node
Node.objects.all().delete()
Cluster.objects.all().delete()
"""


@pytest.fixture(scope="module")
def machines(server: ConsoleServer) -> Iterator[None]:
    server.run(MAKE)
    yield
    server.run(REMOVE)


def test_a_grouping_keeps_filters_and_sort_that_were_chosen_after_the_page_was_loaded(tab: Tab) -> None:
    tab.open("/fleet/")
    rows = tab.page.locator("#listing tbody tr")
    tab.page.locator(".filters input[name=q]").fill("box-1")
    expect(rows).to_have_count(2)
    tab.page.locator("#listing .sort", has_text="Machine").click()
    expect(tab.page.locator("#listing th[aria-sort=ascending]")).to_contain_text("Machine")
    tab.page.get_by_role("link", name="Rack").click()
    expect(tab.page.locator(".heat-group-name").first).to_contain_text("rack-0")
    expect(rows).to_have_count(2)
    assert "sort=name" in tab.page.url
    tab.page.locator(".filters input[name=q]").fill("box-11")
    expect(rows).to_have_count(1)
    tab.page.get_by_role("link", name="Clear filters").click()
    expect(rows).to_have_count(12)
    assert "by=rack" in tab.page.url
    tab.page.reload()
    expect(tab.page.get_by_role("link", name="Clear filters")).to_have_count(0)


def test_a_field_that_something_else_has_styled_is_loaded_again_within_the_policy(tab: Tab) -> None:
    """Extensions of browsers, password managers and screenshots of tests style fields."""
    tab.open("/fleet/")
    field = tab.page.locator(".filters input[name=q]")
    field.evaluate("field => { field.style.caretColor = 'transparent'; field.isOld = true; }")
    tab.page.evaluate("document.body.dispatchEvent(new CustomEvent('live:refresh', {bubbles: true}))")
    eventually(lambda: not field.evaluate("field => field.isOld"))
    assert tab.complaints == []


def test_the_heat_map_is_one_stop_of_the_tab_key_and_arrows_go_through_it(tab: Tab) -> None:
    tab.open("/fleet/")
    cells = tab.page.locator(".heat-map a.heat")
    expect(cells).to_have_count(12)
    cells.first.focus()
    for key, place in (("ArrowRight", 1), ("End", 11), ("ArrowLeft", 10), ("Home", 0)):
        tab.page.keyboard.press(key)
        expect(cells.nth(place)).to_be_focused()
    expect(tab.page.locator('.heat-map a.heat[tabindex="0"]')).to_have_count(1)
    tab.page.keyboard.press("Enter")
    expect(tab.page.get_by_role("heading", level=1)).to_have_text("box-00")
