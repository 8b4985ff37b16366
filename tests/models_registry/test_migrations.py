"""Rows from before a migration are what the code after it expects."""

from datetime import timedelta

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

BEFORE, AFTER = ("models_registry", "0005_hub_source_notices"), ("models_registry", "0006_version_facts")


@pytest.fixture
def moved_back(transactional_db):
    executor = MigrationExecutor(connection)
    latest = executor.loader.graph.leaf_nodes()
    executor.migrate([BEFORE])
    yield executor.loader.project_state([BEFORE]).apps
    last = MigrationExecutor(connection)
    last.migrate(latest)


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
