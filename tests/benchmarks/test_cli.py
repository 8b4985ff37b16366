"""What pipelines read of a benchmark: forms of its result, and conditions that fail a comparison."""

import csv
import io
import sys
from typing import Any
from xml.etree import ElementTree

import pytest

from slipway.cli.bench_expressions import FailureCondition
from slipway.cli.nouns.bench import _csv, _junit, _markdown, _parquet, _table, _with_value
from slipway.exits import CommandFailed

CONCLUSION: dict[str, Any] = {
    "best": 1,
    "verdict": "best",
    "cells": [{"cell": 1, "value": {"value": 4.25, "low": 4.0, "high": 4.5}}],
}
CELL = {"version": "chat:v1", "engine": "vllm", "machine": "", "refusal": "", "runs": 5}
ROW: dict[str, Any] = {
    "name": "nightly",
    "state": "finished",
    "reason": "",
    "result": {
        "conclusion": CONCLUSION,
        "cells": [
            {**CELL, "id": 1, "parameters": {"slots": 8}},
            {**CELL, "id": 2, "parameters": {"slots": 2}},
            {**CELL, "id": 3, "parameters": {"slots": 4}, "refusal": "needs a GPU; there is none"},
        ],
        "runs": [{"cell": 2, "reason": "", "violations": [{"said": "Requests were sent late."}]}],
    },
}


def cells() -> list[dict[str, Any]]:
    return [_with_value(cell, CONCLUSION) for cell in ROW["result"]["cells"]]


def test_junit_has_a_case_for_each_configuration() -> None:
    suite = ElementTree.fromstring(_junit(ROW, cells()).partition("\n")[2])
    assert (suite.get("tests"), suite.get("failures")) == ("3", "1")
    assert [[child.tag for child in case] for case in suite] == [["system-out"], ["failure"], ["skipped"]]
    assert suite[1][0].get("message") == "Requests were sent late."


def test_markdown_says_which_configuration_to_use() -> None:
    told = _markdown(ROW, cells())
    assert "use chat:v1 vllm slots=8 (best)" in told
    assert "| 1 | chat:v1 vllm slots=8 | 4.25 | 4 to 4.5 |" in told


def test_a_condition_is_met_by_any_rate() -> None:
    figures = [
        {"name": "ttft_p95", "rate": rate, "ratio": ratio, "verdict": "higher"}
        for rate, ratio in ((1.0, 1.01), (4.0, 1.2))
    ]
    assert "1.200 at 4" in FailureCondition.read("ttft_p95 > 1.05").met(figures)
    assert FailureCondition.read("ttft_p95 >= 1.3").met(figures) == ""
    with pytest.raises(CommandFailed):
        FailureCondition.read("tpot_p95 > 1").met(figures)
    for text in ("ttft_p95", "ttft_p95 = 1", "ttft_p95 > fast", "__import__ > 1; 1"):
        with pytest.raises(CommandFailed):
            FailureCondition.read(text)


GOODPUT = {"name": "goodput", "unit": "requests/s"}
ONE = {**GOODPUT, "rate": 1.0, "value": 4.25, "low": None, "high": None, "samples": 1}
OTHER = {**GOODPUT, "rate": 2.0, "value": 3.5, "low": 3.0, "high": 4.0, "samples": 5}
FIGURED = [
    {**CELL, "id": 1, "parameters": {"slots": 8}, "figures": [ONE]},
    {**CELL, "id": 2, "parameters": {"slots": "auto"}, "figures": [OTHER]},
]


def test_a_table_has_a_row_for_each_figure_and_a_column_for_each_parameter() -> None:
    columns, rows = _table({"cells": FIGURED})
    found = list(csv.DictReader(io.StringIO(_csv(columns, rows).decode())))
    assert [(one["slots"], one["rate"], one["value"], one["low"]) for one in found] == [
        ("8", "1.0", "4.25", ""),
        ("auto", "2.0", "3.5", "3.0"),
    ]


def test_parquet_has_numbers_where_they_are_and_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table({"cells": FIGURED})
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(CommandFailed, match="parquet"):
            _parquet(*table)
    parquet = pytest.importorskip("pyarrow.parquet")
    found = parquet.read_table(io.BytesIO(_parquet(*table))).to_pylist()
    assert [(one["slots"], one["value"], one["low"]) for one in found] == [
        ("8", 4.25, None),
        ("auto", 3.5, 3.0),
    ]
