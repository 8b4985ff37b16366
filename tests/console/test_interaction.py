import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Route, expect

from common.pages.shell import nav_items
from tests.console.conftest import Tab
from tests.console.server import PASSWORD

pytestmark = pytest.mark.browser


def test_slash_focuses_the_search_box(tab: Tab) -> None:
    tab.open("/styleguide/")
    tab.page.keyboard.press("/")
    expect(tab.page.locator("[data-find] input")).to_be_focused()
    assert tab.page.locator("[data-find] input").input_value() == ""


def test_question_mark_shows_the_shortcuts_and_escape_closes_them(tab: Tab) -> None:
    tab.open("/styleguide/")
    tab.page.keyboard.press("?")
    expect(tab.page.locator("#keys")).to_be_visible()
    expect(tab.page.locator("#keys")).to_contain_text("Go to Releases")
    tab.page.keyboard.press("Escape")
    expect(tab.page.locator("#keys")).not_to_be_visible()


def test_g_and_a_letter_go_to_a_place(tab: Tab) -> None:
    tab.open("/search/")
    for place in nav_items():
        if place.key:
            tab.page.keyboard.press("g")
            tab.page.keyboard.press(place.key)
            tab.page.wait_for_url(tab.url + place.path)


def test_a_key_presses_a_button_of_the_page_and_ctrl_enter_sends_its_dialog(tab: Tab) -> None:
    tab.open("/styleguide/")
    tab.page.keyboard.press("?")
    expect(tab.page.locator("#keys [data-page-keys]")).to_contain_text("Abort")
    tab.page.keyboard.press("Escape")
    tab.page.keyboard.press("x")
    dialog = tab.page.locator("#ask-abort")
    expect(dialog.locator("textarea")).to_be_focused()
    tab.page.keyboard.type("x is a letter here")
    tab.page.keyboard.press("Control+Enter")
    expect(dialog).not_to_be_visible()
    expect(tab.page.locator("#toasts")).to_contain_text("x is a letter here")


def test_shortcuts_are_silent_while_one_types(tab: Tab) -> None:
    tab.open("/styleguide/")
    box = tab.page.locator("[data-find] input")
    box.focus()
    tab.page.keyboard.type("gr?/")
    assert box.input_value() == "gr?/"
    assert tab.page.url.endswith("/styleguide/")
    expect(tab.page.locator("#keys")).not_to_be_visible()


def test_j_and_k_walk_through_the_rows(tab: Tab) -> None:
    tab.open("/styleguide/")
    rows = tab.page.locator("main .row-link")
    tab.page.keyboard.press("j")
    expect(rows.nth(0)).to_be_focused()
    tab.page.keyboard.press("j")
    expect(rows.nth(1)).to_be_focused()
    tab.page.keyboard.press("k")
    expect(rows.nth(0)).to_be_focused()


def test_the_first_tab_stop_skips_to_the_content(tab: Tab) -> None:
    tab.open("/styleguide/")
    tab.page.keyboard.press("Tab")
    expect(tab.page.locator(".skip")).to_be_focused()
    tab.page.keyboard.press("Enter")
    expect(tab.page.locator("#content")).to_be_focused()


def test_a_destructive_button_says_what_happens_and_asks_why(tab: Tab) -> None:
    tab.open("/styleguide/")
    posted = []
    tab.page.on("request", lambda request: posted.append(request) if request.method == "POST" else None)
    tab.page.get_by_role("button", name="Abort").click()
    dialog = tab.page.locator("#ask-abort")
    expect(dialog).to_contain_text("All traffic returns to stable v13 within two seconds.")
    expect(dialog.locator("textarea")).to_be_focused()
    dialog.get_by_role("button", name="Abort release").click()
    expect(dialog).to_be_visible()
    assert posted == []  # no reason, no post

    dialog.locator("textarea").fill("latency doubled")
    dialog.get_by_role("button", name="Abort release").click()
    expect(dialog).not_to_be_visible()
    expect(tab.page.locator("#toasts")).to_contain_text("Release 12 aborted: latency doubled")
    assert len(posted) == 1
    tab.page.get_by_role("button", name="Abort").click()
    assert dialog.locator("textarea").input_value() == ""
    assert tab.complaints == []


def test_a_refusal_stands_in_the_dialog_with_what_was_typed(tab: Tab) -> None:
    tab.open("/styleguide/")
    tab.page.get_by_role("button", name="Abort").click()
    dialog = tab.page.locator("#ask-abort")
    dialog.locator("textarea").fill("no")
    dialog.get_by_role("button", name="Abort release").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Release 12 is already promoted.")
    expect(dialog.get_by_role("alert")).to_contain_text("Roll it back instead.")
    assert dialog.locator("textarea").input_value() == "no"
    expect(dialog.get_by_role("button", name="Abort release")).to_be_enabled()


def test_all_that_is_wrong_in_a_dialog_stands_at_its_fields_at_once(tab: Tab) -> None:
    tab.open("/styleguide/")
    tab.page.get_by_role("button", name="Change").click()
    dialog = tab.page.locator("#ask-change")
    dialog.get_by_label("Name").fill("no slug")
    dialog.get_by_label("Replicas").fill("99")
    dialog.locator("textarea[name=reason]").fill("for a look")
    dialog.locator("form").evaluate("form => (form.noValidate = true)")
    dialog.get_by_role("button", name="Save").click()
    faults = dialog.locator(".field", has=tab.page.locator("[aria-invalid=true]"))
    expect(faults).to_contain_text(["Enter a valid", "less than or equal to 64"])
    expect(dialog.get_by_label("Name")).to_be_focused()
    expect(dialog.get_by_role("alert")).to_have_count(0)
    dialog.get_by_role("button", name="Cancel").click()
    tab.page.get_by_role("button", name="Change").click()
    expect(dialog.get_by_label("Name")).to_be_visible()
    expect(dialog.locator(".field-error")).to_have_count(0)


def test_escape_keep_and_a_click_beside_it_close_a_dialog(tab: Tab) -> None:
    tab.open("/styleguide/")
    dialog = tab.page.locator("#ask-abort")
    leave: list[Callable[[], None]] = [
        lambda: tab.page.keyboard.press("Escape"),
        lambda: dialog.get_by_role("button", name="Keep it running").click(),
        lambda: tab.page.mouse.click(640, 780),
    ]
    for close in leave:
        tab.page.get_by_role("button", name="Abort").click()
        expect(dialog).to_be_visible()
        close()
        expect(dialog).not_to_be_visible()


def test_a_dialog_whose_fields_do_not_come_says_so_and_sends_nothing(tab: Tab) -> None:
    tab.open("/styleguide/")
    tab.page.route("**/styleguide/?fields", lambda route: route.fulfill(status=500))
    opener = tab.page.get_by_role("button", name="Change")
    dialog = tab.page.locator("#ask-change")
    opener.click()
    expect(dialog.get_by_role("alert")).to_have_text(
        "The server could not do this (500). Close this and open it again."
    )
    expect(dialog.get_by_role("button", name="Save")).to_be_disabled()
    expect(dialog.locator("[aria-busy]")).to_have_count(0)
    tab.page.keyboard.press("Escape")

    tab.page.unroute("**/styleguide/?fields")
    opener.click()
    expect(dialog.get_by_label("Name")).to_be_focused()
    expect(dialog.get_by_role("button", name="Save")).to_be_enabled()
    expect(dialog.get_by_role("alert")).to_have_count(0)


def test_fields_that_come_late_leave_somebody_who_types_alone(tab: Tab) -> None:
    tab.open("/styleguide/")
    held: list[Route] = []
    tab.page.route("**/styleguide/?fields", lambda route: held.append(route))
    tab.page.get_by_role("button", name="Change").click()
    dialog = tab.page.locator("#ask-change")
    dialog.locator("textarea[name=reason]").press_sequentially("it is ")
    assert len(held) == 1
    expect(dialog.locator("[data-fields]")).to_have_attribute("aria-busy", "true")
    shown = "getComputedStyle(document.querySelector('#ask-change [data-fields]'), '::before').content"
    assert tab.page.evaluate(shown) == '"Loading …"'
    held[0].continue_()
    expect(dialog.get_by_label("Name")).to_be_visible()
    expect(dialog.locator("[aria-busy]")).to_have_count(0)
    tab.page.keyboard.type("too small")
    expect(dialog.locator("textarea[name=reason]")).to_have_value("it is too small")
    assert tab.complaints == []


def test_fields_of_an_earlier_opening_never_replace_what_is_typed_now(tab: Tab) -> None:
    tab.open("/styleguide/")
    held: list[Route] = []
    tab.page.route("**/styleguide/?fields", lambda route: held.append(route))
    opener = tab.page.get_by_role("button", name="Change")
    dialog = tab.page.locator("#ask-change")
    opener.click()
    expect(dialog.locator("[aria-busy=true]")).to_have_count(1)
    tab.page.keyboard.press("Escape")
    expect(dialog).not_to_be_visible()
    expect(dialog.locator("[aria-busy]")).to_have_count(0)
    opener.click()
    expect(dialog.locator("[aria-busy=true]")).to_have_count(1)
    assert len(held) == 2

    held[1].continue_()
    expect(dialog.get_by_label("Name")).to_be_focused()
    dialog.get_by_label("Name").fill("typed")
    held[0].fulfill(body="<p>Too late</p>", content_type="text/html")
    tab.page.wait_for_timeout(300)
    expect(dialog.get_by_label("Name")).to_have_value("typed")
    expect(dialog).not_to_contain_text("Too late")
    expect(dialog.get_by_role("alert")).to_have_count(0)


def test_the_focus_is_where_it_was_when_a_dialog_is_saved_and_its_part_drawn_again(tab: Tab) -> None:
    tab.open("/styleguide/")
    drawn = tab.page.locator("#clock time").get_attribute("datetime")
    opener = tab.page.get_by_role("button", name="Annotate", exact=True)
    opener.focus()
    tab.page.wait_for_timeout(1_100)
    tab.page.keyboard.press("Enter")
    tab.page.keyboard.type("seen")
    tab.page.keyboard.press("Tab")
    tab.page.keyboard.press("Tab")
    tab.page.keyboard.press("Enter")
    expect(tab.page.locator("#clock time")).not_to_have_attribute("datetime", drawn or "")
    expect(opener).to_be_focused()


def test_the_page_one_comes_back_to_looks_again(tab: Tab) -> None:
    tab.open("/styleguide/")
    tab.open("/")
    with tab.page.expect_request(lambda request: request.headers.get("hx-target") == "clock"):
        tab.page.go_back()


def test_the_theme_is_remembered_and_there_before_the_first_paint(tab: Tab) -> None:
    tab.open("/styleguide/")
    tab.page.locator("summary.person-badge").click()
    tab.page.locator("[data-theme-choice][value=dark]").check()
    assert tab.page.locator("html").get_attribute("data-bs-theme") == "dark"
    tab.page.add_init_script(
        "document.addEventListener('DOMContentLoaded', () => 0);"
        "new MutationObserver((_, me) => { if (document.body) {"
        " window.atBody = document.documentElement.dataset.bsTheme; me.disconnect(); } })"
        ".observe(document, {childList: true, subtree: true});"
    )
    tab.open("/styleguide/")
    assert tab.page.evaluate("window.atBody") == "dark"
    assert tab.page.evaluate("getComputedStyle(document.body).colorScheme") == "dark"


def test_filters_sorts_and_pages_have_a_url(tab: Tab) -> None:
    tab.open("/styleguide/")
    tab.page.locator(".filters input[name=q]").fill("llama")
    expect(tab.page.locator("#listing tbody tr")).to_have_count(1)
    assert "q=llama" in tab.page.url
    tab.page.locator(".filters input[name=q]").fill("")
    expect(tab.page.locator("#listing tbody tr")).to_have_count(6)
    tab.page.locator("#listing .sort", has_text="Size").click()
    expect(tab.page.locator("#listing th[aria-sort=descending]")).to_contain_text("Size")
    expect(tab.page.locator("#listing tbody tr").first).to_contain_text("mixtral")
    shared = tab.page.url
    assert "sort=-size" in shared
    tab.open(shared.removeprefix(tab.url))
    expect(tab.page.locator("#listing tbody tr").first).to_contain_text("mixtral")
    tab.page.locator(".filters input[name=q]").fill("mi")
    expect(tab.page.locator("#listing tbody tr")).to_have_count(2)
    expect(tab.page.locator("#listing tbody tr").first).to_contain_text("mixtral")
    assert "sort=-size" in tab.page.url  # filtering keeps the order
    assert tab.complaints == []


def test_a_filter_with_nothing_behind_it_says_so_and_can_be_cleared(tab: Tab) -> None:
    tab.open("/styleguide/?q=nosuchmodel")
    expect(tab.page.locator("#listing")).to_contain_text("No model matches")
    tab.page.locator("#listing").get_by_role("link", name="Clear filters").click()
    expect(tab.page.locator("#listing tbody tr")).to_have_count(6)


def test_a_digest_is_copied_whole(tab: Tab) -> None:
    tab.open("/styleguide/")
    tab.page.locator(".copy").first.click()
    copied = tab.page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("sha256:9f86d081")
    assert len(copied) == len("sha256:") + 64


def test_a_part_that_is_gone_is_told_in_words(tab: Tab) -> None:
    tab.open("/styleguide/")
    tab.page.route("**/styleguide/?sort=name", lambda route: route.fulfill(status=404, body="<h1>no</h1>"))
    tab.page.locator("#listing .sort", has_text="Name").click()
    expect(tab.page.locator("#toasts")).to_contain_text("This no longer exists. Reload the page.")
    expect(tab.page.locator("#listing tbody tr")).to_have_count(6)


def test_a_server_that_does_not_answer_is_told_in_words(tab: Tab) -> None:
    tab.open("/styleguide/")
    tab.page.route("**/styleguide/?sort=name", lambda route: route.abort())
    tab.page.locator("#listing .sort", has_text="Name").click()
    expect(tab.page.locator("#toasts")).to_contain_text("The server does not respond")


def test_the_menu_opens_on_a_phone(new_tab: Callable[..., Tab]) -> None:
    tab = new_tab(width=390, height=844)
    tab.open("/styleguide/")
    place = tab.page.locator(".place", has_text="Releases")
    expect(place).not_to_be_in_viewport()
    tab.page.get_by_role("button", name="Menu").click()
    expect(place).to_be_in_viewport()
    expect(tab.page.locator(".side-button")).to_have_attribute("aria-expanded", "true")
    tab.page.mouse.click(370, 600)
    expect(place).not_to_be_in_viewport()


def test_times_grow_older_without_the_server(tab: Tab) -> None:
    tab.page.clock.install()
    tab.open("/styleguide/")
    waiting = tab.page.locator(".step[aria-current] .step-time")
    before = waiting.inner_text()
    tab.page.clock.run_for(61_000)
    assert waiting.inner_text() != before


def test_a_time_that_one_gives_is_of_the_zone_of_the_browser(tab: Tab) -> None:
    """Times are read as the page shows them; the address, which can be shared, names the exact time."""
    zone = {"timezoneId": "Asia/Shanghai"}
    tab.page.context.new_cdp_session(tab.page).send("Emulation.setTimezoneOverride", zone)
    tab.open("/audit/")
    tab.page.get_by_label("Since").fill("2026-03-03T14:00:00")
    tab.page.wait_for_url("**/audit/?*since=2026-03-03T06%3A00%3A00.000Z*")
    tab.page.reload()
    assert tab.page.get_by_label("Since").input_value() == "2026-03-03T14:00"


def test_a_freeze_begins_by_the_clock_of_its_own_zone_and_a_fault_keeps_what_was_typed(tab: Tab) -> None:
    zone = {"timezoneId": "Asia/Shanghai"}
    tab.page.context.new_cdp_session(tab.page).send("Emulation.setTimezoneOverride", zone)
    tab.open("/releases/freezes/+new/")
    for label, typed in (("Name", "Feast"), ("Starts", "2030-01-01T18:00"), ("Hours", "2")):
        tab.page.get_by_label(label).fill(typed)
    tab.page.get_by_label("Time zone").select_option("Europe/Paris")
    tab.page.get_by_label("Recurrence").fill("now and then")
    tab.page.get_by_role("button", name="Create").click()
    expect(tab.page.locator(".field-error")).to_contain_text("RFC 5545")
    assert tab.page.get_by_label("Starts").input_value() == "2030-01-01T18:00"
    tab.page.get_by_label("Recurrence").fill("")
    tab.page.get_by_role("button", name="Create").click()
    tab.page.wait_for_url("**/releases/freezes/")
    [made] = tab.page.evaluate("fetch('/api/v1/freezes/').then((answer) => answer.json())")["results"]
    assert made["starts_at"] == "2030-01-01T17:00:00Z"


def test_signing_in_leads_back_to_the_page_one_wanted(new_tab: Callable[..., Tab]) -> None:
    tab = new_tab(signed_in=False)
    tab.open("/search/?q=llama")
    assert "/accounts/login/?next=/search/%3Fq%3Dllama" in tab.page.url
    tab.page.get_by_label("Username").fill("ada.lovelace")
    tab.page.get_by_label("Password").fill("wrong")
    tab.page.get_by_role("button", name="Sign in").click()
    expect(tab.page.get_by_role("alert")).to_be_visible()
    tab.page.get_by_label("Username").fill("ada.lovelace")
    tab.page.get_by_label("Password").fill(PASSWORD)
    tab.page.get_by_role("button", name="Sign in").click()
    tab.page.wait_for_url("**/search/?q=llama")
    expect(tab.page.locator("summary.person-badge")).to_have_text(re.compile("AL"))
    tab.page.locator("summary.person-badge").click()
    tab.page.get_by_role("button", name="Sign out").click()
    tab.page.wait_for_load_state()
    tab.open("/search/")
    assert "/accounts/login/" in tab.page.url
