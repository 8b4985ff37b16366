"""Tables are read in a terminal of 80 columns."""

import pytest

from slipway.cli import main
from slipway.cli.context import CliEnvironment
from slipway.cli.tables import fitted
from tests.slipway.described_api import DescribedApi, commands

TABLES = {"list", "history", "drains", "collections", "checks", "findings", "deliveries", "keys", "events"}
LEFT_OUT = {
    "images list": ["TEAM"],
    "client-key list": ["EXPIRES"],
    "source list": ["HUB"],
    "upload list": ["FROM"],
    "gpu finding list": ["WOULD", "SEEN"],
    "jobs list": ["CREATED"],
    "freeze list": ["RECURRENCE"],
}
"""What the examples of the API leave no place for; the last columns are the least."""


def test_every_list_fits_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {
        "SLIPWAY_TOKEN": "slp_x",
        "COLUMNS": "80",
        "TTY_COMPATIBLE": "1",
        "TERM": "dumb",
    }.items():
        monkeypatch.setenv(name, value)
    left_out = {}
    for words, command in commands():
        if words[-1] not in TABLES or words[:2] == ("gpu", "healing"):
            continue
        given = ["m"] if words[0] == "alias" else ["1" for one in command.params if one.required]
        with pytest.raises(SystemExit):
            main([*words, *given], outside=CliEnvironment(transport=DescribedApi()))
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) > 1, words
        for line in lines:
            if line.startswith("Too wide for this terminal: "):
                named = line.removeprefix("Too wide for this terminal: ").partition(".")[0]
                left_out[" ".join(words)] = named.split(", ")
            else:
                assert len(line) <= 80, (words, line)
    assert left_out == LEFT_OUT


def test_names_are_whole_before_prose_is_and_empty_columns_give_way() -> None:
    rows = [
        ["production", "", "2026-11-20T09:10:11.5Z", "https://hub.example.org/a/long/path", "two words " * 9]
    ]

    columns, left_out = fitted(["ALIAS", "PROBLEM", "SINCE", "URL", "REASON"], rows, 60)

    assert [(one.heading, one.width) for one in columns] == [
        ("ALIAS", 10),
        ("SINCE", 16),
        ("URL", 18),
        ("REASON", 10),
    ]
    assert columns[1].cells == ["2026-11-20 09:10"]
    assert left_out == []
    assert fitted(["ALIAS", "PROBLEM", "SINCE", "URL", "REASON"], rows, 40)[1] == ["REASON"]
