"""Rows from before a migration are what the code after it expects."""

from datetime import timedelta

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

BEFORE, AFTER = ("models_registry", "0005_hub_source_notices"), ("models_registry", "0006_version_facts")
TOTALS = ("models_registry", "0015_evaluations_and_totals")
SEARCHES = ("models_registry", "0018_what_searches_ask_for")


@pytest.fixture
def before(request) -> tuple[str, str]:
    return getattr(request, "param", BEFORE)


@pytest.fixture
def moved_back(transactional_db, before, settings):
    # The tables were made from the models, as those of all tests are; they are what migrations would make.
    settings.MIGRATION_MODULES = {}
    call_command("migrate", fake=True, verbosity=0)
    executor = MigrationExecutor(connection)
    latest = executor.loader.graph.leaf_nodes()
    executor.migrate([before])
    yield executor.loader.project_state([before]).apps
    last = MigrationExecutor(connection)
    last.migrate(latest)


@pytest.mark.slow
def test_ready_versions_without_facts_are_woken_a_few_in_each_second(moved_back) -> None:
    team = moved_back.get_model("accounts", "Team").objects.create(name="vision")
    model = moved_back.get_model("models_registry", "Model").objects.create(team=team, name="tiny")
    version = moved_back.get_model("models_registry", "Version")
    whole = {"digest": "0" * 64, "ready_at": timezone.now(), "file_count": 1}
    for number in (1, 2, 3):
        version.objects.create(model=model, number=number, name=f"v{number}", state="ready", **whole)
    version.objects.create(model=model, number=4, name="v4", state="failed")
    MigrationExecutor(connection).migrate([AFTER])
    after = MigrationExecutor(connection).loader.project_state([AFTER]).apps
    rows = after.get_model("models_registry", "Version").objects
    due = dict(rows.values_list("name", "next_at"))
    assert due["v4"] is None
    assert due["v1"] - due["v3"] == timedelta(seconds=1)
    assert set(rows.values_list("facts", flat=True)) == {None}


@pytest.mark.parametrize("before", [("models_registry", "0014_finding_mark")], indirect=True)
def test_models_tell_of_their_ready_versions_and_tags_of_their_models(moved_back) -> None:
    team = moved_back.get_model("accounts", "Team").objects.create(name="vision")
    models = moved_back.get_model("models_registry", "Model").objects
    model, empty = models.create(team=team, name="tiny"), models.create(team=team, name="empty")
    whole = {"digest": "0" * 64, "ready_at": timezone.now(), "file_count": 1, "size_bytes": 2**40}
    told = {"architecture": "Llama", "parameters": 7 * 10**9, "facts": {"format": "gguf"}}
    versions = moved_back.get_model("models_registry", "Version").objects
    for number, state in ((1, "ready"), (2, "ready"), (3, "archived")):
        row = versions.create(model=model, number=number, name=f"v{number}", state=state, **whole, **told)
        moved_back.get_model("models_registry", "VersionTag").objects.create(version=row, name="good")
    models.filter(pk=model.pk).update(latest=versions.get(name="v2"))
    MigrationExecutor(connection).migrate([TOTALS])
    after = MigrationExecutor(connection).loader.project_state([TOTALS]).apps
    columns = ("ready_versions", "ready_bytes", "architecture", "weights", "parameters")
    rows = after.get_model("models_registry", "Model").objects
    assert rows.values_list(*columns).get(name="tiny") == (2, 2**41, "Llama", "gguf", 7 * 10**9)
    assert rows.values_list(*columns).get(pk=empty.pk) == (0, 0, "", "", None)
    tags = after.get_model("models_registry", "VersionTag").objects
    assert set(tags.values_list("model", flat=True)) == {model.pk}


@pytest.mark.parametrize("before", [("models_registry", "0017_sync_cause")], indirect=True)
def test_searches_find_models_and_tags_that_were_there_before(moved_back) -> None:
    team = moved_back.get_model("accounts", "Team").objects.create(name="vision")
    model = moved_back.get_model("models_registry", "Model").objects.create(
        team=team, name="tiny", task="text-generation", description="Speaks Finnish.", architecture="LlamaNet"
    )
    whole = {"digest": "0" * 64, "ready_at": timezone.now(), "file_count": 1}
    versions = moved_back.get_model("models_registry", "Version").objects
    ready = versions.create(model=model, number=1, name="v1", state="ready", **whole)
    archived = versions.create(model=model, number=2, name="v2", state="archived", **whole)
    tags = moved_back.get_model("models_registry", "VersionTag").objects
    for version in (ready, archived):
        tags.create(version=version, model=model, name="evaluated")
    type(model).objects.update(latest=ready)

    MigrationExecutor(connection).migrate([SEARCHES])
    after = MigrationExecutor(connection).loader.project_state([SEARCHES]).apps
    row = after.get_model("models_registry", "Model").objects.get()
    assert (row.newest_at, row.words) == (
        whole["ready_at"],
        "tiny text-generation speaks finnish. llamanet",
    )
    tags = after.get_model("models_registry", "VersionTag").objects
    assert set(tags.values_list("version", "is_ready")) == {(ready.pk, True), (archived.pk, False)}
