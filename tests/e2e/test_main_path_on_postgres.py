"""The main job once more, on PostgreSQL, whose statements, locks and isolation are others."""

from collections.abc import Iterator

import pytest

from tests.e2e.test_main_path import (
    test_a_pipeline_releases_waits_for_a_person_and_sees_the_end,
    test_an_approver_finds_the_release_at_home_clicks_and_sees_it_promoted,
)
from tests.postgres import PostgresServer

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]
__all__ = [
    "test_a_pipeline_releases_waits_for_a_person_and_sees_the_end",
    "test_an_approver_finds_the_release_at_home_clicks_and_sees_it_promoted",
]


@pytest.fixture(scope="module")
def database_url() -> Iterator[str]:
    server = PostgresServer()
    yield server.url
    server.stop()
