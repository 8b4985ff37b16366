"""Columns of a table in the width of a terminal."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

GAP = 2
LEAST = 10
"""A column is not shrunk below this, nor below its heading."""
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d):\d\d(?:\.\d+)?(?:Z|\+00:00)", re.ASCII)


@dataclass
class TableColumn:
    heading: str
    cells: list[str]
    width: int
    is_prose: bool
    """Texts of several words are folded; names and addresses are cut, as half a name is no other name."""
    least: int


def fitted(
    headings: Sequence[str], rows: Iterable[Sequence[str]], width: int
) -> tuple[list[TableColumn], list[str]]:
    """Return the columns that fit, and the headings of those that do not. A time or a first name is whole.

    A column that is empty in every row gives its place to the others; times are cut to the minute.
    """
    columns = []
    for index, (heading, cells) in enumerate(zip(headings, zip(*rows, strict=True), strict=False)):
        if not any(cells):
            continue
        is_prose = any(" " in cell for cell in cells)
        texts = [_TIME.sub(r"\1 \2", cell) for cell in cells]
        natural = max(len(heading), *map(len, texts))
        is_whole = not is_prose and (index == 0 or texts != list(cells))
        least = natural if is_whole else max(len(heading), min(natural, LEAST))
        columns.append(TableColumn(heading, texts, natural, is_prose, least))
    left_out: list[str] = []
    while (over := sum(one.width + GAP for one in columns) - GAP - width) > 0:
        loose = [one for one in columns if one.width > one.least]
        if loose:
            widest = max(loose, key=lambda one: (one.is_prose, one.width))
            widest.width = max(widest.least, widest.width - over)
        elif len(columns) > 1:
            left_out.insert(0, columns.pop().heading)
        else:
            break
    return columns, left_out
