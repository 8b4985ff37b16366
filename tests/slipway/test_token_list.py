"""`slipway token list` is read in a terminal of 80 columns."""

from rich.console import Console
from rich.table import Table

from slipway.cli.nouns.token import COLUMNS

ROW: dict[str, object] = {
    "id": 1234,
    "name": "ci-of-the-team",
    "state": "active",
    "team": "vision",
    "scopes": ["models.write", "read", "releases.start"],
    "services": ["chat", "embeddings"],
    "expires_at": "2026-12-24T10:11:12.123456Z",
    "last_used_at": None,
}


def test_a_row_fits_a_line_of_80_columns() -> None:
    table = Table(*COLUMNS, box=None, pad_edge=False)
    table.add_row(
        *(str(ROW.get(cell) or "" if isinstance(cell, str) else cell(ROW)) for cell in COLUMNS.values())
    )
    console = Console(width=80)
    with console.capture() as written:
        console.print(table)
    header, row = written.get().splitlines()
    assert "models.write +2" in row
    assert "2026-12-24" in row
    assert len(header.rstrip()) <= 80
