"""Aliases move, one at a time, and remember who, when and why."""

from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.actors import of_user
from common import events
from common.errors import Invalid, NotAllowed, Stale, WrongState
from models_registry import references
from models_registry.errors import InUse, InvalidName, UnknownModel, UnknownVersion
from models_registry.events import AliasMoved, VersionReady
from models_registry.models import Alias, AliasMove, Version
from models_registry.selectors import aliases, catalogue, versions
from models_registry.services import aliases as alias_services
from models_registry.services import catalogue as catalogue_services
from models_registry.services import imports
from models_registry.services import versions as version_services
from tests import cast
from tests.models_registry.uses import used_by

pytestmark = pytest.mark.django_db


@pytest.fixture
def pair(library, actor, model) -> tuple[Version, Version]:
    return library.ready(actor, model), library.ready(actor, model, "two", b"\x02")


def move(actor, model, version, reason="", **options) -> Alias:
    return alias_services.set_alias(
        actor=actor, model=model, alias="production", version=version, reason=reason, **options
    )


def in_force(model, at) -> AliasMove | None:
    moves = AliasMove.objects.filter(aliases.in_force_at(at), model=model, alias="production")
    return moves.select_related("to_version__model").first()


def test_the_history_answers_what_was_in_production_when_by_whom_and_why(actor, model, pair) -> None:
    first, second = pair
    march = timezone.now() - timedelta(days=200)
    move(actor, model, first, "Launch.")
    AliasMove.objects.update(at=march)
    move(actor, model, second, "Better answers.", release_id=7)
    alias_services.delete_alias(
        actor=actor, alias=aliases.alias_named(model, "production"), reason="Retired."
    )
    assert in_force(model, march - timedelta(seconds=1)) is None
    then = in_force(model, march + timedelta(days=30))
    assert (str(then.to_version), then.by, then.reason, then.release_id) == (
        "tiny:v1",
        "ada",
        "Launch.",
        None,
    )
    assert in_force(model, timezone.now()).to_version is None
    before_retiring = AliasMove.objects.get(to_version=second).at
    assert in_force(model, before_retiring).release_id == 7
    history = aliases.alias_history(model, "production")
    assert [moved.reason for moved in history] == ["Retired.", "Better answers.", "Launch."]


def test_of_two_who_move_an_alias_at_once_the_later_is_told(actor, model, pair) -> None:
    first, second = pair
    read = move(actor, model, first).revision
    move(actor, model, second, expected=read)
    with pytest.raises(Stale, match="by someone else"):
        move(actor, model, first, expected=read)
    with pytest.raises(Stale):
        alias_services.set_alias(actor=actor, model=model, alias="new", version=first, expected=1)
    assert AliasMove.objects.count() == 2


def test_deleting_an_alias_that_was_moved_meanwhile_is_refused(actor, model, pair) -> None:
    first, second = pair
    read = move(actor, model, first)
    move(actor, model, second)
    with pytest.raises(Stale):
        alias_services.delete_alias(actor=actor, alias=read)
    assert Alias.objects.get().version == second


def test_an_alias_points_only_at_a_ready_version_of_its_own_model(library, actor, model, pair) -> None:
    importing = imports.import_version(actor=actor, model=model, source=str(library.root / "model"))
    with pytest.raises(WrongState, match="importing"):
        move(actor, model, importing)
    version_services.delete_version(actor=actor, version=pair[0])
    with pytest.raises(WrongState, match="deleted"):
        move(actor, model, Version.objects.get(pk=pair[0].pk))
    other = catalogue_services.create_model(actor=actor, team=model.team, name="other")
    with pytest.raises(UnknownVersion):
        move(actor, other, pair[1])
    with pytest.raises(InvalidName):
        alias_services.set_alias(actor=actor, model=model, alias="v9", version=pair[1])


def test_a_version_that_an_alias_names_is_not_deleted_and_stays_whole(library, actor, model, pair) -> None:
    move(actor, model, pair[0])
    with pytest.raises(InUse, match="production"):
        version_services.delete_version(actor=actor, version=pair[0])
    with pytest.raises(InUse, match="production"):
        catalogue_services.delete_model(actor=actor, model=model)
    library.settle()
    assert {version.state for version in Version.objects.all()} == {"ready"}


def test_events_tell_ids_after_the_commit_and_nothing_of_what_was_rolled_back(
    library, actor, model, django_capture_on_commit_callbacks
) -> None:
    told: list[object] = []
    for kind in (AliasMoved, VersionReady):
        events.subscribe(kind, told.append)
    with django_capture_on_commit_callbacks(execute=True):
        version = library.ready(actor, model)
    with django_capture_on_commit_callbacks(execute=True):
        move(actor, model, version)
    with django_capture_on_commit_callbacks(execute=True), pytest.raises(InUse):
        version_services.delete_version(actor=actor, version=version)
    assert told == [
        VersionReady(version.pk),
        AliasMoved(model.pk, "production", None, version.pk, AliasMove.objects.get().pk),
    ]


def test_who_may_not_write_models_moves_no_alias(model, pair) -> None:
    for user in (cast.person("vic", vision="viewer"), cast.person("sue", other="admin")):
        with pytest.raises(NotAllowed):
            move(of_user(user), model, pair[0])


def test_a_reference_resolves_by_alias_number_name_and_digest(library, actor, model, pair) -> None:
    first, second = pair
    move(actor, model, first)
    named = library.ready(actor, model, "three", b"\x03", version="2026-11-rc1")
    for part, version in (
        ("production", first), ("v2", second), ("2026-11-rc1", named), ("v3", named),
        (second.digest[:12], second),
    ):  # fmt: skip
        assert versions.resolve(actor, f"tiny:{part}") == version
    for reference, error in (
        ("tiny:v9", UnknownVersion), ("tiny", UnknownVersion), ("tiny:", UnknownVersion),
        ("none:v1", UnknownModel), ("tiny:0000000000000", UnknownVersion), ("tiny:staging", UnknownVersion),
        ("TINY:v1", UnknownModel),
    ):  # fmt: skip
        with pytest.raises(error):
            versions.resolve(actor, reference)
    with pytest.raises(UnknownModel):
        versions.resolve(of_user(cast.person("sue", other="admin")), "tiny:v1")


def test_two_versions_with_one_digest_resolve_to_the_newer(library, actor, model) -> None:
    first = library.ready(actor, model)
    second = library.ready(actor, model, "copy")
    assert versions.version_named(model, first.digest[:12]) == second


def test_a_digest_prefix_that_several_versions_share_is_refused(library, actor, model, pair) -> None:
    from django.db.models import QuerySet

    twins = ("a" * 12 + "0" * 52, "a" * 12 + "1" * 52)
    for version, digest in zip(pair, twins, strict=True):
        QuerySet(Version).filter(pk=version.pk).update(digest=digest)
    with pytest.raises(UnknownVersion, match="several versions"):
        versions.version_named(model, "a" * 12)
    assert versions.version_named(model, "a" * 12 + "1") == pair[1]


def test_cards_show_the_newest_ready_version_and_where_it_is_served(library, actor, model, pair) -> None:
    imports.import_version(actor=actor, model=model, source=str(library.root / "model"))
    move(actor, model, pair[0])
    served = used_by(pair[1], "service chat (stable)")
    references.register_uses(served)
    references.register_uses(served)
    card = catalogue.card(model)
    assert card.latest == pair[1]
    assert [alias.version for alias in card.aliases] == [pair[0].name]
    assert (card.version_count, card.size_bytes) == (2, pair[0].size_bytes + pair[1].size_bytes)
    assert card.served == ("service chat (stable)",)
    assert [version.name for version in versions.importing(actor)] == ["v3"]


def test_a_deleted_models_name_is_free_and_its_versions_gone(library, actor, model, pair) -> None:
    catalogue_services.delete_model(actor=actor, model=model, reason="Not used.")
    library.settle()
    library.collect()
    assert library.stored() == set()
    with pytest.raises(UnknownModel):
        catalogue.model_named(actor, "tiny")
    again = catalogue_services.create_model(actor=actor, team=model.team, name="tiny")
    assert list(versions.versions(again)) == []
    assert list(catalogue.models(actor)) == [again]


def test_only_approvers_and_administrators_move_or_delete_a_protected_alias(actor, model, pair) -> None:
    first, second = pair
    dora = of_user(cast.person("dora", vision="developer"))
    bo = of_user(cast.person("bo", vision="approver"))
    catalogue_services.change_model(actor=bo, model=model, protected_aliases=["production", "production"])
    assert model.protected_aliases == ["production"]

    with pytest.raises(NotAllowed, match=r"protected ones in team vision.*these roles have: approver, admin"):
        move(dora, model, first)
    assert not AliasMove.objects.exists()

    moved = move(bo, model, first)
    with pytest.raises(NotAllowed, match=r"aliases\.protected"):
        alias_services.delete_alias(actor=dora, alias=moved)
    alias_services.set_alias(actor=dora, model=model, alias="staging", version=second)
    assert move(cast.SYSTEM, model, second, release_id=7).version == second


def test_who_may_not_move_protected_aliases_cannot_lift_the_protection(actor, model) -> None:
    dora = of_user(cast.person("dora", vision="developer"))
    catalogue_services.change_model(
        actor=of_user(cast.person("bo", vision="approver")), model=model, protected_aliases=["a"]
    )
    with pytest.raises(NotAllowed, match=r"aliases\.protected"):
        catalogue_services.change_model(actor=dora, model=model, protected_aliases=[])
    catalogue_services.change_model(actor=dora, model=model, task="text-generation", protected_aliases=["a"])
    assert (model.task, model.protected_aliases) == ("text-generation", ["a"])


@pytest.mark.parametrize("names", [["v1"], ["UPPER"], [f"a{number}" for number in range(21)]])
def test_names_that_cannot_be_protected_are_named(actor, model, names) -> None:
    with pytest.raises(Invalid) as refusal:
        catalogue_services.change_model(actor=cast.SYSTEM, model=model, protected_aliases=names)
    assert refusal.value.fields.keys() == {"protected_aliases"}
