import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.template import Context, Template, loader
from django.test import RequestFactory

from common.pages import badges, icons
from common.pages.charts import Chart, Limit, Series, sparkline
from common.pages.shell import current_item, initials, nav_items
from common.pages.steps import StepView
from releases.plans.step import kinds

TEMPLATES = sorted((Path(settings.BASE_DIR) / "templates").rglob("*.html"))
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def draw(source: str, **context: object) -> str:
    return Template("{% load slipway meters %}" + source).render(Context(context))


def test_every_template_compiles_and_names_icons_that_exist() -> None:
    assert len(TEMPLATES) > 100
    for path in TEMPLATES:
        text = path.read_text()
        loader.get_template(str(path.relative_to(Path(settings.BASE_DIR) / "templates")))
        for name in re.findall(r'{% icon "([^"]+)"|\b(?:icon|mark)="([a-z0-9-]+)"', text):
            assert "<path" in icons.icon("".join(name)), path


def test_every_filtered_list_tells_in_its_part_which_filters_make_no_sense() -> None:
    filtered = ("{% filters listing %}", 'class="filters" role="search"')
    for path, text in ((path, path.read_text()) for path in TEMPLATES):
        if any(mark in text for mark in filtered):
            part = text.partition("{% partialdef listing")[2].partition("{% endpartialdef listing")[0]
            assert not part or "{% faults listing %}" in part, path
            assert part or path.parent.name == "components", path


def test_no_template_needs_what_the_security_policy_forbids() -> None:
    forbidden = re.compile(r"""\sstyle="|\son[a-z]+="|javascript:|hx-on|hx-vals='js:|<script(?![^>]*src=)""")
    assert {path: found for path in TEMPLATES if (found := forbidden.findall(path.read_text()))} == {}


def test_every_state_has_a_word_a_tone_and_an_icon_that_exists() -> None:
    for kind in badges.names():
        drawn = badges.badges_named(kind)
        words = [look.word for look in drawn.values()]
        assert len(set(words)) == len(words), kind
        for look in drawn.values():
            assert look.tone in badges.TONES
            assert "<path" in icons.icon(look.icon)


def test_no_two_states_of_a_kind_differ_by_colour_alone() -> None:
    for kind in badges.names():
        drawn = badges.badges_named(kind)
        shapes = [(look.word, look.icon) for look in drawn.values()]
        assert len(set(shapes)) == len(shapes), kind


def test_the_contract_s_release_states_are_all_drawn() -> None:
    contract = (
        "pending, running, waiting_approval, paused, promoted, rolling_back, rolled_back, rejected, aborted, "
        "failed, stuck"
    )
    later = {"superseded", "undone"}  # what became of a promoted one
    assert set(badges.badges_named("release")) == {*contract.split(", "), *later}


def test_a_state_nobody_has_drawn_is_shown_by_its_name() -> None:
    text = draw('{% state "release" "half_done" %}')
    assert "Half done" in text
    assert "tone-idle" in text


def test_places_steps_and_cells_use_icons_that_exist() -> None:
    for name in [place.icon for place in nav_items()] + [kind.icon for kind in kinds().values()]:
        assert "<path" in icons.icon(name)


@pytest.mark.parametrize("name", ["no-such-icon", "../outline/home", "Home", ""])
def test_an_icon_that_does_not_exist_is_an_error(name: str) -> None:
    with pytest.raises(icons.UnknownIcon, match="icon named"):
        icons.icon(name)


def test_without_npm_pages_go_without_pictures(settings, tmp_path: Path) -> None:
    settings.BASE_DIR = tmp_path
    icons.icon.cache_clear()
    try:
        assert str(icons.icon("home")).startswith("<svg")
    finally:
        icons.icon.cache_clear()


def test_a_time_says_how_long_ago_and_exactly_when() -> None:
    text = draw("{% ago moment %}", moment=datetime.now(UTC) - timedelta(hours=5, minutes=1))
    assert "5\u00a0h ago" in text
    assert re.search(r'datetime="[\d-]+T[\d:]+\+00:00" title="[\d-]+ [\d:]+ UTC"', text)
    assert draw("{% ago moment %}", moment=None) == "–"
    assert draw('{% ago moment empty="never" %}', moment=None) == "never"


def test_elapsed_stands_still_after_its_end_and_grows_before() -> None:
    assert draw("{% elapsed a b %}", a=NOW, b=NOW + timedelta(seconds=31.8)) == "31\u00a0s"
    assert "data-elapsed" in draw("{% elapsed a %}", a=datetime.now(UTC) - timedelta(minutes=4))
    assert "&lt;1\u00a0s" in draw("{% elapsed a %}", a=datetime.now(UTC) + timedelta(minutes=4))


def test_a_digest_shows_its_beginning_and_copies_all_of_it() -> None:
    text = draw("{% digest value %}", value="sha256:" + "ab" * 32)
    assert f">{'ab' * 6}<" in text
    assert f'data-copy="sha256:{"ab" * 32}"' in text
    assert draw("{% digest value %}", value="") == "–"


@pytest.mark.parametrize(
    ("share", "level", "words"),
    [(None, "", "not known"), (0, "0", "0%"), (0.42, "4", "42%"), (1.0, "10", "100%"), (1.7, "10", "170%")],
)
def test_a_busy_bar_speaks(share: float | None, level: str, words: str) -> None:
    text = draw('{% busy share label="GPU 0" %}', share=share)
    assert f'data-busy="{level}"' in text
    assert f'aria-valuetext="{words}"' in text
    assert 'aria-label="GPU 0"' in text


def test_names_from_outside_are_escaped_everywhere() -> None:
    evil = '"><script>x</script>'
    sources = [
        "{% state 'release' value %}",
        "{% digest value %}",
        "{% busy 0.5 label=value live=value %}",
        "{% heat 0.5 label=value url=value %}",
        "{% spark numbers label=value %}",
        "{% empty title=value text=value %}",
        "{% problem title=value log=value %}",
        "{% confirm action=value label=value title=value says=value placeholder=value %}",
        "{% progress 1 2 label=value %}",
        "{% chart graph id='c' %}",
        "{% steps plan %}",
        "{% log lines label=value %}",
    ]
    graph = Chart(evil, [NOW], [Series(evil, [1.0])], limits=[Limit(evil, 1)])
    plan = [StepView("circle-dot", evil, evil, evil, actor=evil)]
    lines = [{"at": NOW, "level": evil, "text": evil}]
    for source in sources:
        text = draw(source, value=evil, numbers=[1, 2], graph=graph, plan=plan, lines=lines)
        assert "<script>x" not in text, source
        assert 'x</script>"' not in text.replace("application/json", ""), source


def test_a_confirmation_without_a_reason_asks_for_none() -> None:
    text = draw('{% confirm action="/x/" label="Revoke" title="Revoke?" says="It stops." reason="none" %}')
    assert "<textarea" not in text
    assert "It stops." in text
    optional = draw('{% confirm action="/x/" label="A" title="B" says="C" reason="optional" %}')
    assert "<textarea" in optional
    assert " required" not in optional


def test_two_confirmations_on_a_page_do_not_share_an_id() -> None:
    def ids(action: str, label: str = "A", title: str = "B") -> set[str]:
        tag = '{% confirm action=action label=label title=title says="C" %}'
        return set(re.findall(r' id="([^"]+)"', draw(tag, action=action, label=label, title=title)))

    first = ids("/x/")
    assert any(one.endswith("-opener") for one in first)
    assert ids("/x/") == first
    for other in (ids("/y/"), ids("/x/", label="Z"), ids("/x/", title="Z")):
        assert len(other) == len(first)
        assert not other & first


def test_a_chart_refuses_series_of_another_length() -> None:
    with pytest.raises(ValueError, match="2 values for 1 moments"):
        Chart("x", [NOW], [Series("a", [1.0, 2.0])])


def test_a_chart_is_told_in_words() -> None:
    chart = Chart("Busy", [NOW, NOW], [Series("fleet", [0.25, None])], "percent", limits=[Limit("full", 0.9)])
    assert chart.in_words == "Busy: fleet last 25.0%, between 25.0% and 25.0%; limit full at 90.0%."
    assert Chart("Busy", [], [Series("fleet", [])]).in_words == "Busy: nothing measured yet."


def test_a_sparkline_breaks_where_nothing_was_measured() -> None:
    line, area = sparkline([0, 1, None, 1], width=90, height=20, top=1)
    assert line == "M0.0 19.0 L30.0 1.0 M90.0 1.0"
    assert area.count("Z") == 2
    assert sparkline([], width=90, height=20) == ("", "")
    assert sparkline([0, 0], width=90, height=20)[0] == "M0.0 19.0 L90.0 19.0"


@pytest.mark.parametrize(
    ("path", "name"),
    [("/", "Home"), ("/models/llama/versions/v3/", "Models"), ("/settings/tokens/", "Settings")],
)
def test_the_navigation_knows_where_one_is(path: str, name: str) -> None:
    place = current_item(path)
    assert place is not None
    assert place.name == name


def test_an_unlisted_page_is_nowhere() -> None:
    assert current_item("/styleguide/") is None


@pytest.mark.parametrize(
    ("name", "letters"), [("ada.lovelace", "AL"), ("Ada Lovelace King", "AL"), ("root", "R"), ("", "?")]
)
def test_people_are_shown_by_their_initials(name: str, letters: str) -> None:
    assert initials(name) == letters


def test_shortcut_keys_are_unique() -> None:
    keys = [place.key for place in nav_items() if place.key]
    assert len(set(keys)) == len(keys)


def test_tabs_know_the_current_page() -> None:
    request = RequestFactory().get("/models/llama/versions/")
    text = Template(
        '{% load slipway meters %}{% tab "/models/llama/" "Overview" %}'
        '{% tab "/models/llama/versions/" "Versions" number=1204 %}'
    ).render(Context({"request": request}))
    assert text.count("aria-current") == 1
    assert text.index("aria-current") > text.index("Overview")
    assert "1,204" in text
