"""Services over REST."""

import pytest

from tests.cast import api, person
from tests.releases.world import Scene

pytestmark = pytest.mark.django_db


def test_a_service_belongs_to_the_team_of_its_model_unless_another_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = Scene(monkeypatch).v2.model
    eve = api(person("eve", **{model.team.name: "developer", "speech": "developer"}))
    body = {"model": model.name, "version": "v2"}
    assert eve.post("services/", {"name": "one", **body}).json()["team"] == model.team.name
    assert eve.post("services/", {"name": "two", "team": "speech", **body}).json()["team"] == "speech"
