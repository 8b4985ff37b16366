"""What apps declare: every kind of row is found, seen and acted upon; who shows it knows no app."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.apps import apps
from django.conf import settings
from django.core.exceptions import FieldDoesNotExist
from django.urls import Resolver404, resolve

from common.app_config import WithManifest
from common.declared import AppManifest, declare, manifests
from common.pages import subjects
from common.pages.badges import Badge, badge_of, badges_named
from common.pages.shell import nav_items
from common.pages.subjects import Subject
from common.reconcile import kernel
from controlplane.home.inbox import sources

ROOT = Path(settings.BASE_DIR)
APPS = {config.name for config in apps.get_app_configs() if isinstance(config, WithManifest)} - {
    "common",
    "controlplane",
}
KNOW_NO_APP = [*(ROOT / "common").rglob("*.py"), *(ROOT / "controlplane/home").rglob("*.py")]


def states_of(kind: str) -> set[str]:
    """Return the states that a row of the kind may have; empty when the kind has none of its own."""
    try:
        field = kernel.reconciler(kind).model._meta.get_field("state")
    except FieldDoesNotExist:
        return set()
    return {value for value, _label in field.choices or () if value}


@pytest.mark.parametrize("kind", kernel.kinds)
def test_every_kind_has_a_subject_with_a_page_and_a_badge_for_each_of_its_states(kind: str) -> None:
    subject = subjects.subject_of(kind)
    assert subject is not None, f"{kind}: name it in `subjects` of its app's manifest"
    assert subject.address.startswith("/"), f"{kind}: give its subject the address of its page"
    missing = states_of(kind) - set(badges_named(subject.badges))
    assert not missing, f"{kind}: no badge for {missing} in its app's manifest"


@pytest.mark.parametrize("kind", kernel.kinds)
def test_every_state_in_which_a_row_waits_for_a_person_is_told_by_the_inbox(kind: str) -> None:
    subject = subjects.subject_of(kind)
    assert subject is not None
    asked = {state for state in states_of(kind) if badge_of(subject.badges, state).tone == "ask"}
    told = {state for source in sources() for of, state in source.tells if of == kind}
    assert asked <= told, f"{kind}: {asked - told} waits for a person, and no inbox source tells it"


def test_what_the_inbox_tells_are_states_of_kinds_that_there_are() -> None:
    told = [one for source in sources() for one in source.tells]
    assert ("releases.release", "waiting_approval") in told
    for kind, state in told:
        assert state in states_of(kind)


def test_every_app_hands_over_a_manifest_of_its_own() -> None:
    assert {"accounts", "models_registry", "releases"} <= APPS
    assert len(manifests()) == len(APPS) + 2


def test_a_name_is_given_once() -> None:
    taken = Subject("releases.release", "Another")
    with pytest.raises(ValueError, match=r"releases\.release"):
        subjects.offer(taken)
    before = len(manifests())
    with pytest.raises(ValueError, match="'release'"):
        declare(AppManifest(badges={"release": {"late": Badge("Late", "bad", "clock-off")}}))
    assert len(manifests()) == before


@pytest.mark.parametrize("file", KNOW_NO_APP, ids=lambda file: str(file.relative_to(ROOT)))
def test_neither_common_nor_home_names_an_app(file: Path) -> None:
    tree = ast.parse(file.read_text())
    named = [name for name in imported(tree) if name.partition(".")[0] in APPS]
    named += [text for text in strings(tree) if NAMES.search(text)]
    assert not named


def test_the_template_of_home_names_no_app() -> None:
    for text in ("/models/+store/", "releases.release", "clusters/_top.html", 'href="/fleet/"'):
        assert NAMES.search(text)
    for file in (ROOT / "templates/home").glob("*.html"):
        assert not NAMES.search(file.read_text()), file


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def strings(tree: ast.Module) -> Iterator[str]:
    """Without docstrings, which may give examples."""
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield node.value


def _names() -> re.Pattern[str]:
    paths = {item.path for item in nav_items() if resolves_to_an_app(item.path)}
    return re.compile(
        rf"(?<!common\.)\b({'|'.join(sorted(APPS))})[./]\w"
        rf"|(?<![\w/])({'|'.join(map(re.escape, sorted(paths)))})"
    )


def resolves_to_an_app(path: str) -> bool:
    try:
        return resolve(path).func.__module__.partition(".")[0] in APPS
    except Resolver404:
        return False


NAMES = _names()
"""`releases.release`, `clusters/_top.html`, `/models/...`"""
