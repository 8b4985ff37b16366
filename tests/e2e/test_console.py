"""The console in a real browser on a real stack: what people click, type and see, and the pages' measures."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from slipway.client import at
from tests.browser import chromium
from tests.e2e.conftest import MODEL, SERVICE, Scene, Traffic
from tests.patience import PATIENCE_SECONDS, eventually

pytestmark = [pytest.mark.stack, pytest.mark.browser, pytest.mark.timeout(900)]

SIZES = ((1280, 800), (390, 844))
"""A laptop and a phone, in CSS pixels."""
NOT_PAGES = ("/admin/", "/api/", "/static/", "/audit/export", "/accounts/logout")
ALIKE = re.compile(r"(?<=/)(releases|workers|deployments|plans|people)/[^/+]+/")
CLICKS_ARE_NOTED = """
addEventListener("click", (event) => {
  window.clicked = event.target.closest("a")?.pathname;
  event.preventDefault();
}, { capture: true })
"""
BRIEF = {
    "description": "As short as a release that asks can be.",
    "steps": [
        {"kind": "deploy", "share_percent": 100, "ready_within_seconds": 60},
        {"kind": "weight", "percent": 30},
        {"kind": "judge", "at_most_seconds": 2, "on_insufficient": "ask"},
        {"kind": "approval", "timeout_seconds": 600},
        {"kind": "promote"},
    ],
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def page(scene: Scene, browser: Browser) -> Iterator[Page]:
    """Signed in as the administrator. What the browser's console complains of fails the test."""
    complaints: list[str] = []
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.set_default_timeout(PATIENCE_SECONDS * 1000)
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"{scene.url}/")
    page.get_by_label("Username").fill("admin")
    page.get_by_label("Password").fill(scene.admin_password)
    page.get_by_role("button", name="Sign in").click()
    yield page
    page.close()
    # A refused form is a 422, which the browser tells, too; htmx tells what was asked when one left the page.
    left = ("htmx:afterRequest", "htmx:sendError", "htmx:sendAbort")
    assert [text for text in complaints if "422" not in text and not text.startswith(left)] == []


@pytest.fixture(scope="module")
def brief(scene: Scene) -> str:
    """Name of a plan that comes to its approval at once."""
    return str(scene.admin.create(at("plans"), {"name": "brief", "body": BRIEF})["name"])


def decide(page: Page, button: str, reason: str) -> None:
    """Click the button, give the reason in its dialog, and send it."""
    page.get_by_role("button", name=button, exact=True).first.click()
    dialog = page.locator("dialog[open]")
    dialog.locator("textarea[name=reason]").fill(reason)
    dialog.locator("button[type=submit]").click()
    expect(dialog).to_be_hidden()


def at_rest(page: Page) -> None:
    """Until what a choice changes is there: nothing moves between press and release of a click."""
    expect(page.locator(".htmx-request, .htmx-swapping, .htmx-settling")).to_have_count(0)


def test_a_release_is_started_paused_resumed_and_rejected_on_one_page_that_never_reloads(
    scene: Scene, traffic: Traffic, page: Page
) -> None:
    page.goto(f"{scene.url}/services/{SERVICE}/")
    page.get_by_role("link", name="Release a version").click()
    page.get_by_label("Version").select_option("v2")
    page.get_by_role("textbox", name="Reason optional").fill("longer training")
    at_rest(page)
    page.get_by_role("button", name="Start the release").click()
    state = page.locator("#release-state")
    expect(state).to_be_visible()
    page.evaluate("window.isTheSamePage = true")

    decide(page, "Pause", "the cluster is being watched")
    expect(state).to_have_text("Paused")
    expect(page.locator("#decision")).to_contain_text("Paused by admin")
    expect(page.locator("#decision")).to_contain_text("is still rolled back")
    page.get_by_role("button", name="Resume", exact=True).click()
    page.locator("dialog[open] button[type=submit]").click()
    scene.wait_for({"id": page.url.rstrip("/").rpartition("/")[2]}, "waiting_approval")
    expect(state).to_have_text("Waiting for approval")
    expect(page.locator("[data-live='candidate.rate']")).to_contain_text("req/s")
    expect(page.locator("#rate .legend-entry", has_text="candidate")).to_contain_text("req/s")
    expect(
        page.get_by_label("Analysis", exact=True).get_by_role("columnheader", name="candidate").first
    ).to_be_visible()
    page.get_by_role("button", name="Reject", exact=True).click()
    dialog = page.locator("dialog[open]")
    dialog.locator("button[type=submit]").click()
    expect(dialog).to_be_visible()  # without a reason it asks for one
    dialog.locator("textarea[name=reason]").fill("It speaks in riddles.")
    dialog.locator("button[type=submit]").click()
    expect(state).to_have_text("Rejected")
    expect(page.locator("#decision")).to_contain_text("It speaks in riddles.")
    expect(page.get_by_label("Traffic over time")).to_be_visible()

    assert page.evaluate("window.isTheSamePage")
    assert scene.admin.get(at("services", SERVICE))["stable"] == f"{MODEL}:v1"
    assert traffic.failures == []


def test_a_promoted_release_is_rolled_back_from_the_services_history(
    scene: Scene, traffic: Traffic, page: Page, brief: str
) -> None:
    page.goto(f"{scene.url}/services/{SERVICE}/")
    charts = page.locator("#service-charts")
    expect(charts.get_by_text("candidate")).to_have_count(0)
    release = scene.wait_for(scene.release("v2", plan=brief), "waiting_approval")
    expect(charts.locator(".legend-entry", has_text="candidate").first).to_be_visible()
    scene.admin.post(at("releases", release["id"], "approve"), {"reason": "soon taken back"})
    scene.wait_for(release, "promoted")

    row = page.locator("#service-history tr", has_text=f"#{release['id']}")
    expect(row.get_by_role("button", name="Roll back")).to_be_visible()
    row.get_by_role("button", name="Roll back").click()
    dialog = page.locator("dialog[open]")
    expect(dialog).to_contain_text(f"Workers of {MODEL}:v1 start and are smoke-tested: about")
    dialog.locator("textarea[name=reason]").fill("It was too long.")
    dialog.locator("button[type=submit]").click()

    expect(page.get_by_text(f"Rolls back #{release['id']}")).to_be_visible()
    expect(page.locator("#release-state")).to_have_text("Promoted")
    assert scene.admin.get(at("services", SERVICE))["stable"] == f"{MODEL}:v1"
    traffic.latest.clear()
    eventually(lambda: set(traffic.latest) == {f"{MODEL}:v1"})
    assert traffic.failures == []


def test_an_alias_is_moved_and_tags_are_put_on_in_dialogs_that_ask_for_their_fields(page: Page) -> None:
    page.get_by_role("link", name="Models").first.click()
    page.locator("main").get_by_role("link", name=MODEL, exact=True).click()
    page.get_by_role("button", name="Move alias").click()
    dialog = page.locator("#move-alias")
    expect(dialog.get_by_label("Alias")).to_be_focused()
    page.keyboard.type("v1")
    dialog.get_by_label("Version").select_option("v1")
    dialog.get_by_label("Reason").fill("The first.")
    dialog.get_by_role("button", name="Move alias").click()
    expect(dialog.get_by_label("Alias")).to_be_focused()
    expect(dialog.get_by_label("Alias")).to_have_accessible_error_message(re.compile("reads like a version"))
    dialog.get_by_label("Alias").fill("oldest")
    dialog.get_by_role("button", name="Move alias").click()
    expect(page.locator(".alias-row")).to_contain_text("oldest")

    page.locator("main").get_by_role("link", name="v1", exact=True).first.click()
    page.get_by_role("button", name="Change tags").click()
    dialog = page.locator("#ask-tags")
    dialog.get_by_label("Tags").fill("first")
    dialog.get_by_role("button", name="Save tags").click()
    expect(page.locator(".facts .chip", has_text="first")).to_be_visible()
    page.get_by_role("button", name="Change tags").click()
    expect(dialog.get_by_label("Tags")).to_have_value("first")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Add metric").click()
    expect(page.locator("#ask-evaluate").get_by_label("Figure")).to_be_focused()


def test_a_mistake_in_a_new_service_is_shown_at_its_field_with_the_rest_kept(
    scene: Scene, page: Page
) -> None:
    page.goto(f"{scene.url}/services/+new/")
    page.get_by_label("Name", exact=True).fill("Second Talk")
    page.get_by_label("Model", exact=True).select_option(MODEL)
    page.get_by_label("Version").select_option("v1")
    page.get_by_label("Engine", exact=True).select_option("echo")
    expect(page.get_by_role("group", name="Settings of the engine echo")).to_be_visible()
    at_rest(page)
    further = page.get_by_label("Further engine settings")
    page.get_by_text("Further settings as JSON").click()
    further.fill("{oops")
    page.get_by_role("button", name="Create service").click()
    expect(page.get_by_text("Use 1 to 50 lower-case letters")).to_be_in_viewport()
    expect(page.get_by_label("Name", exact=True)).to_be_focused()
    expect(page.get_by_text("Not JSON, line 1, column 2")).to_be_visible()
    expect(further).to_have_value("{oops")
    expect(page.get_by_label("Version")).to_have_value("v1")


def test_a_mistake_in_a_plan_is_told_while_one_types_and_keeps_it_from_being_saved(
    scene: Scene, page: Page
) -> None:
    page.goto(f"{scene.url}/settings/plans/+new/")
    page.get_by_label("Name", exact=True).fill("hasty")
    percent = page.locator("#steps-3-percent")
    percent.fill("400")
    page.keyboard.press("Tab")  # onto the button that moves the step up
    expect(page.locator("#preview")).to_contain_text("1 problem")
    expect(page.locator("#steps-3-percent-problem")).to_contain_text("less than or equal to 100")
    page.get_by_role("button", name="Save").click()
    expect(percent).to_be_focused()
    expect(page.locator("#steps-3-percent-problem")).to_be_in_viewport()
    percent.fill("15")
    expect(page.locator("#preview")).to_contain_text("A valid plan")
    page.get_by_role("button", name="Save").click()
    page.wait_for_url("**/settings/plans/default/hasty/")


@pytest.mark.slow
def test_every_page_fits_a_laptop_and_a_phone_and_hears_the_shortcuts(
    scene: Scene, page: Page, brief: str
) -> None:
    release = scene.wait_for(scene.release("v3", plan=brief), "waiting_approval")
    waiting, seen, kinds, too_wide, deaf = ["/"], {"/"}, set[str](), list[str](), list[str]()
    while waiting:
        path = waiting.pop(0)
        if (kind := ALIKE.sub(r"\1/…/", path)) in kinds:
            continue
        kinds.add(kind)
        page.goto(scene.url + path)
        expect(page.locator("[data-chart]:not([data-drawn])")).to_have_count(0)
        for link in page.eval_on_selector_all("a[href]", "links => links.map(link => link.href)"):
            target = urlsplit(link)
            ours = f"{target.scheme}://{target.netloc}" == scene.url
            if ours and target.path not in seen and not target.path.startswith(NOT_PAGES):
                seen.add(target.path)
                waiting.append(target.path)
        for width, height in SIZES:
            page.set_viewport_size({"width": width, "height": height})
            needs = page.evaluate("document.documentElement.scrollWidth")
            if needs > width:
                too_wide.append(f"{path} needs {needs} of {width} pixels")
        page.set_viewport_size({"width": SIZES[0][0], "height": SIZES[0][1]})
        if page.locator("[data-find]").count() and not _hears_the_shortcuts(page):
            deaf.append(path)
    scene.admin.post(at("releases", release["id"], "reject"), {"reason": "only looked at"})
    scene.wait_for(release, "rejected")
    assert too_wide == []
    assert deaf == []
    shown = {
        "/",
        "/releases/…/",
        f"/services/{SERVICE}/",
        f"/models/{MODEL}/v1/",
        "/audit/",
        "/settings/plans/…/",
    }
    assert shown <= kinds


def _hears_the_shortcuts(page: Page) -> bool:
    page.evaluate(CLICKS_ARE_NOTED)
    for key in ("Escape", "?"):  # out of the field that the page begins in
        page.keyboard.press(key)
    helps = page.locator("#keys").is_visible()
    for key in ("Escape", "/"):
        page.keyboard.press(key)
    searches = page.evaluate("document.activeElement.matches('[data-find] input')")
    for key in ("Escape", "g", "r"):
        page.keyboard.press(key)
    return bool(helps and searches and page.evaluate("window.clicked") == "/releases/")
