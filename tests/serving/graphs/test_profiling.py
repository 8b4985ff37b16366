"""Tasks of a real program, measured in processes of their own."""

import time
from pathlib import Path

import pytest

from serving.graphs.errors import GraphError
from serving.graphs.profile_cards import covered
from serving.graphs.profile_neighbours import shared_out
from serving.graphs.profiling import profile

PROGRAM = """
import time
from slipway import graph

@graph.task(batch=graph.Batch(max_size=4))
class Sleepy:
    def load(self, files):
        time.sleep(0.05)
        self.table = bytearray(48 << 20)
        self.table[::4096] = b"x" * len(self.table[::4096])

    def run(self, words: list[str]) -> list[str]:
        time.sleep(0.004 + 0.002 * len(words))
        return [word.upper() for word in words]

@graph.task
def split(text: str) -> list[str]:
    if text == "poison":
        raise ValueError("poison")
    return text.split()

@graph.task
def spin(words: list[str]) -> str:
    end = time.perf_counter() + 0.003
    while time.perf_counter() < end:
        pass
    return " ".join(words)

with graph.Graph("shout") as g:
    text = g.input("text", str)
    g.output(spin(Sleepy().each(split(text))))
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "shout.py").write_text(PROGRAM)
    (tmp_path / "items.jsonl").write_text('"a b c"\n"poison"\n"d e f g h"\n')
    return tmp_path / "shout.py"


@pytest.mark.process
def test_a_profile_tells_times_visits_memory_and_cores(program: Path) -> None:
    report = profile(program, program.parent / "items.jsonl")
    tasks = {one["task"]: one for one in report["tasks"]}
    assert {name: one["visits"] for name, one in tasks.items()} == {"split": 1.0, "Sleepy": 4.0, "spin": 1.0}
    sleepy = {time["size"]: time for time in tasks["Sleepy"]["times"]}
    assert sorted(sleepy) == [1, 2, 4]
    for size, measured in sleepy.items():
        assert 0.004 + 0.002 * size <= measured["seconds"] < 0.1
        assert measured["calls"] >= 2
        assert measured["memory"] > 48 << 20
    assert tasks["Sleepy"]["load_seconds"] >= 0.05
    assert tasks["Sleepy"]["cores"] < tasks["spin"]["cores"]
    assert 0 < tasks["split"]["bytes_in"] < 200
    assert report["machine"]["cores"] >= 1
    others = {one["neighbours"] for one in tasks.values()}
    assert others == {int(report["machine"]["cores"]) - 1}
    assert all(1 <= one["interference"] < 20 for one in tasks.values())


def test_neighbours_are_shared_out_by_work_and_overlapping_streams_count_once() -> None:
    assert shared_out({"long": 3.0, "short": 1.0}, 4) == ["long", "long", "long", "short"]
    assert shared_out({}, 4) == []
    assert covered([(0, 4), (1, 2), (3, 6), (8, 9)]) == 7


@pytest.mark.process
def test_a_program_that_fails_is_told_with_its_reason(program: Path) -> None:
    (program.parent / "bad.jsonl").write_text('"poison"\n')
    began = time.monotonic()
    with pytest.raises(GraphError, match="ValueError: poison"):
        profile(program, program.parent / "bad.jsonl")
    assert time.monotonic() - began < 30
