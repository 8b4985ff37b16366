"""What an open page does with a live socket; the test is the socket's other end."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.console.conftest import Tab
from tests.patience import eventually

pytestmark = pytest.mark.browser


def say(tab: Tab, **frame: Any) -> None:
    assert tab.socket is not None
    tab.socket.send(json.dumps(frame))


def snapshot(tab: Tab, seq: int, values: dict[str, Any]) -> None:
    say(tab, type="snapshot", topic="styleguide", seq=seq, values=values)


def delta(tab: Tab, seq: int, values: dict[str, Any], **more: Any) -> None:
    say(tab, type="delta", topic="styleguide", seq=seq, values=values, **more)


def asked(tab: Tab) -> list[tuple[str, list[str]]]:
    return [(wish["type"], wish["topics"]) for wish in map(json.loads, tab.heard)]


@pytest.fixture
def live(tab: Tab) -> Tab:
    tab.open("/styleguide/")
    expect(tab.page.locator("[data-live-state=live]")).to_contain_text("Live")
    return tab


def rate(tab: Tab) -> Any:
    return tab.page.locator(".stat-value[data-live=rate]")


def test_a_page_subscribes_to_the_topics_it_shows(live: Tab) -> None:
    assert asked(live) == [("subscribe", ["styleguide"])]
    assert 0 < json.loads(live.heard[0])["age"] < 600


def test_a_snapshot_fills_every_kind_of_cell(live: Tab) -> None:
    snapshot(live, 7, {"rate": 42, "gpu.0.busy": 0.96, "node.0.busy": 0.31, "candidate.percent": 31.26})
    expect(rate(live)).to_have_text("42.0\u00a0req/s")
    bar = live.page.locator("[data-live='gpu.0.busy']").first
    expect(bar).to_have_attribute("data-busy", "10")
    expect(bar).to_have_attribute("aria-valuenow", "96")
    expect(bar.locator("rect")).to_have_attribute("width", "96%")
    expect(bar.locator(".busy-number")).to_have_text("96%")
    cell = live.page.locator("[data-live='node.0.busy']").first
    expect(cell).to_have_attribute("data-busy", "3")
    cell.hover()
    expect(cell).to_have_attribute("title", "node-00: 31%")
    expect(live.page.locator("[data-live='candidate.percent']")).to_have_text("31.3%")
    assert live.complaints == []


def test_a_cell_of_many_machines_shows_the_share_of_all_their_slots(live: Tab) -> None:
    cell = live.page.locator(".heat-map .heat").first
    cell.evaluate("""cell => {
        cell.dataset.live = "node.0.busy node.1.busy";
        cell.dataset.liveAs = "heat";
        document.body.dispatchEvent(new CustomEvent("htmx:load", {detail: {elt: cell.parentElement}}));
    }""")
    snapshot(live, 1, {"node.0.busy": 1, "node.0.slots": 2, "node.1.busy": 0, "node.1.slots": 8})
    expect(cell).to_have_attribute("data-busy", "2")
    delta(live, 2, {"node.1.busy": 0.5})
    expect(cell).to_have_attribute("data-busy", "6")
    assert live.complaints == []


def test_deltas_change_cells_in_place_and_nothing_moves(live: Tab) -> None:
    snapshot(live, 1, {"rate": 128})
    expect(rate(live)).to_have_text("128\u00a0req/s")
    live.page.evaluate("window.shift = 0; window.kept = document.querySelector('.stat-value')")
    for seq in range(2, 30):
        delta(live, seq, {"rate": seq * 31, "gpu.0.busy": seq / 30})
    expect(rate(live)).to_have_text("899\u00a0req/s")
    assert live.page.evaluate("window.kept === document.querySelector('.stat-value')")
    assert live.page.evaluate("window.shift") == 0
    assert asked(live) == [("subscribe", ["styleguide"])]


def test_a_delta_that_spans_several_numbers_is_applied(live: Tab) -> None:
    snapshot(live, 4, {"rate": 1})
    delta(live, 9, {"rate": 3}, **{"from": 4})
    expect(rate(live)).to_have_text("3.00\u00a0req/s")
    assert asked(live) == [("subscribe", ["styleguide"])]


def test_a_gap_asks_for_a_snapshot_and_ignores_deltas_until_it_comes(live: Tab) -> None:
    snapshot(live, 4, {"rate": 1})
    delta(live, 6, {"rate": 3})
    delta(live, 7, {"rate": 4})
    live.page.wait_for_timeout(200)
    assert asked(live) == [("subscribe", ["styleguide"]), ("snapshot", ["styleguide"])]
    expect(rate(live)).to_have_text("1.00\u00a0req/s")
    snapshot(live, 8, {"rate": 5})
    delta(live, 9, {"rate": 6})
    expect(rate(live)).to_have_text("6.00\u00a0req/s")


def test_what_is_gone_reads_as_not_known(live: Tab) -> None:
    snapshot(live, 1, {"rate": 12, "gpu.0.busy": 0.5})
    expect(rate(live)).to_have_text("12.0\u00a0req/s")
    delta(live, 2, {}, gone=["rate", "gpu.0.busy"])
    expect(rate(live)).to_have_text("–")
    expect(live.page.locator("[data-live='gpu.0.busy']").first).to_have_attribute("data-busy", "")


def test_look_again_loads_the_part_anew_and_live_values_stay(live: Tab) -> None:
    snapshot(live, 1, {"rate": 12})
    expect(rate(live)).to_have_text("12.0\u00a0req/s")
    with live.page.expect_request(lambda request: request.headers.get("hx-target") == "clock") as asked_for:
        say(live, type="look", topic="styleguide")
    assert "HX-Request".lower() in asked_for.value.headers
    answer = asked_for.value.response()
    assert answer is not None
    assert answer.text().strip().startswith("<div")  # the part, not the page
    expect(rate(live)).to_have_text("12.0\u00a0req/s")


def test_a_part_with_an_open_dialog_waits_until_it_is_closed(live: Tab) -> None:
    live.page.evaluate(
        """() => {
          const clock = document.getElementById("clock");
          const dialog = '<dialog id="inside"><button data-closes>x</button></dialog>';
          clock.insertAdjacentHTML("beforeend", dialog);
          document.getElementById("inside").showModal();
        }"""
    )
    with live.page.expect_response(lambda response: "styleguide" in response.url):
        say(live, type="look", topic="styleguide")
    live.page.wait_for_timeout(200)
    expect(live.page.locator("#inside")).to_be_visible()
    with live.page.expect_response(lambda response: "styleguide" in response.url):
        live.page.locator("#inside [data-closes]").click()
    expect(live.page.locator("#inside")).to_have_count(0)


def test_a_lost_connection_is_shown_and_comes_back_with_fresh_parts(live: Tab) -> None:
    assert live.socket is not None
    with live.page.expect_request(lambda request: request.headers.get("hx-target") == "clock"):
        live.socket.close(code=1012)
    expect(live.page.locator("[data-live-state=live]")).to_be_visible()
    assert live.sockets_opened == 2
    assert asked(live)[-1] == ("subscribe", ["styleguide"])


def test_a_server_that_stays_away_is_asked_ever_more_rarely(new_tab: Callable[..., Tab]) -> None:
    tab = new_tab(live=False)
    tab.page.clock.install()
    tab.open("/styleguide/")
    expect(tab.page.locator("[data-live-state=lost]")).to_contain_text("Reconnecting")
    counts = []
    for _ in range(3):
        before = tab.sockets_opened
        for _ in range(10):
            tab.page.clock.run_for(1_000)
            tab.page.wait_for_timeout(20)
        counts.append(tab.sockets_opened - before)
    assert 2 <= counts[0] <= 8
    assert 0 <= counts[2] <= 2


@pytest.mark.parametrize(
    ("code", "state", "words"),
    [
        (4403, "right-gone", "You no longer have permission to see this page"),
        (4401, "signed-out", "You are signed out"),
    ],
)
def test_a_right_that_is_gone_is_said_once_and_not_tried_again(
    live: Tab, code: int, state: str, words: str
) -> None:
    assert live.socket is not None
    live.socket.close(code=code)
    expect(live.page.locator(f"[data-live-state={state}]")).to_be_visible()
    expect(live.page.locator("#toasts")).to_contain_text(words)
    live.page.wait_for_timeout(1_500)
    assert live.sockets_opened == 1


def test_a_refused_topic_is_said_in_the_server_s_words(live: Tab) -> None:
    say(live, type="refused", topic="styleguide", detail="You may not see this team's releases.")
    expect(live.page.locator("#toasts")).to_contain_text("You may not see this team's releases.")


def test_a_page_says_when_news_cannot_reach_it(live: Tab) -> None:
    say(live, type="down", part="redis")
    expect(live.page.locator("[data-live-state=stale]")).to_contain_text("Not live")
    with live.page.expect_request(lambda request: request.headers.get("hx-target") == "clock"):
        say(live, type="up", part="redis")
    expect(live.page.locator("[data-live-state=live]")).to_be_visible()


def test_a_silent_socket_is_given_up(tab: Tab) -> None:
    tab.page.clock.install()
    tab.open("/styleguide/")
    expect(tab.page.locator("[data-live-state=live]")).to_be_visible()
    tab.page.clock.run_for(20_000)
    say(tab, type="beat")
    tab.page.wait_for_timeout(50)
    tab.page.clock.run_for(20_000)
    assert tab.sockets_opened == 1
    tab.page.clock.run_for(40_000)
    tab.page.wait_for_timeout(100)
    tab.page.clock.run_for(2_000)
    tab.page.wait_for_timeout(100)
    assert tab.sockets_opened >= 2


def test_a_page_without_live_topics_opens_no_socket(tab: Tab) -> None:
    tab.open("/search/")
    tab.page.wait_for_timeout(300)
    assert tab.sockets_opened == 0
    expect(tab.page.locator("[data-live-state=off] .live-dot")).to_be_hidden()


def test_unreadable_frames_are_ignored(live: Tab) -> None:
    assert live.socket is not None
    live.socket.send("not json")
    say(live, type="snapshot", topic="another", seq=1, values={"rate": 5})
    snapshot(live, 1, {"rate": 12, "no.such.cell": 3})
    expect(rate(live)).to_have_text("12.0\u00a0req/s")
    assert live.complaints == []


@pytest.mark.parametrize("queue", ["", 'hx-sync="this:queue last"'])
def test_news_that_come_while_a_part_is_loading_are_not_lost(live: Tab, queue: str) -> None:
    held: list[Any] = []
    part = '<div id="clock" hx-get="" hx-trigger="live:styleguide from:body" hx-swap="outerHTML"'
    said = f"{part} {queue}>%s</div>"
    count = "document.body.addEventListener('live:styleguide', () => { window.heard += 1; })"
    live.page.evaluate(f"() => {{ window.heard = 0; {count} }}")
    live.page.route("**/styleguide/", lambda route: held.append(route))

    def look(times: int) -> None:
        say(live, type="look", topic="styleguide")
        eventually(lambda: live.page.evaluate("window.heard") == times)

    def answer(number: int, text: str) -> None:
        eventually(lambda: live.page.evaluate("window.heard") and len(held) > number)
        held[number].fulfill(body=said % text)
        expect(live.page.locator("#clock")).to_have_text(text)

    look(1)
    answer(0, "at rest")
    look(2)
    look(3)
    answer(1, "before")
    answer(2, "after")
    assert (len(held), live.sockets_opened) == (3, 1)


def test_a_part_that_was_not_answered_asks_again(live: Tab) -> None:
    answers = [lambda route: route.abort(), lambda route: route.fulfill(status=503, body="")]
    said = '<div id="clock" hx-get="" hx-trigger="live:styleguide from:body">at last</div>'
    live.page.route(
        "**/styleguide/", lambda route: answers.pop(0)(route) if answers else route.fulfill(body=said)
    )
    say(live, type="look", topic="styleguide")
    expect(live.page.locator("#clock")).to_have_text("at last")
    live.complaints.clear()


def test_who_signs_out_is_led_on_whatever_the_page_asks_for_meanwhile(live: Tab) -> None:
    """Signing out leads to the identity provider, though a refused request would lead the page elsewhere."""
    refused = {"HX-Redirect": "/accounts/login/"}
    live.page.route("**/styleguide/", lambda route: route.fulfill(status=401, headers=refused))
    sent_away: list[Any] = []
    live.page.route("**/accounts/login/", lambda route: sent_away.append(route))
    # The answer to the form is on its way for as long as this test lasts.
    live.page.evaluate("window.addEventListener('submit', (event) => event.preventDefault())")
    live.page.evaluate("document.querySelector('form[action=\"/accounts/logout/\"]').requestSubmit()")
    answered = "document.body.addEventListener('htmx:afterRequest', done, { once: true })"
    live.page.evaluate(f"() => {{ window.answered = new Promise((done) => {answered}); }}")
    say(live, type="look", topic="styleguide")
    live.page.evaluate("window.answered.then(() => null)")
    live.page.wait_for_timeout(100)
    assert not sent_away
    live.complaints.clear()
