"""What the sample finds where it is not the first to come."""

from collections.abc import Iterator
from typing import Any

import pytest

from controlplane.sample.play import SampleFailed, owning_team
from slipway.client import ApiPath, Client, at


class Teams(Client):
    """A server that has these teams."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def each(self, address: ApiPath, **_: Any) -> Iterator[dict[str, Any]]:
        assert address == at("teams")
        return iter({"name": name} for name in self._names)


@pytest.mark.parametrize(
    ("teams", "owner"),
    [(["default"], "default"), (["chat", "default", "vision"], "default"), (["chat", "vision"], "chat")],
)
def test_the_sample_belongs_to_the_first_team_however_many_there_are(teams: list[str], owner: str) -> None:
    assert owning_team(Teams(*teams)) == owner


def test_without_a_team_the_sample_says_where_to_make_one() -> None:
    with pytest.raises(SampleFailed, match="Settings"):
        owning_team(Teams())
