"""A graph is checked when it is built, and runs serially as it is written."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from serving.fields import ProtocolError
from serving.graphs.description import GraphDescription
from slipway import graph


@dataclass
class WordCount:
    text: list[str]
    count: int


@graph.task(batch=graph.Batch(max_size=4))
class Split:
    def __init__(self, mark: str = " ") -> None:
        self.mark = mark

    def load(self, files: Any) -> None:
        self.is_loaded = True

    def run(self, lines: list[str]) -> list[WordCount]:
        assert self.is_loaded
        return [WordCount(line.split(self.mark), line.count(self.mark) + 1) for line in lines]


@graph.task
def shout(word: str, mark: str = "!") -> str:
    return word.upper() + mark


@graph.task
def join(words: list[str], count: int) -> str:
    return f"{count}: {' '.join(words)}"


def built() -> graph.Graph:
    with graph.Graph("shouting") as g:
        words = Split()(g.input("line", str))
        g.output(join(shout.when(words.count, otherwise=words.text).each(words.text, "?"), words.count))
    return g


def test_the_serial_run_follows_fields_fan_out_and_conditions(tmp_path):
    serial = graph.SerialRun(built(), tmp_path)

    assert serial.run({"line": "a b c"}) == {"": "3: A? B? C?"}


def test_what_a_task_raises_is_the_reason_of_its_item(tmp_path):
    with pytest.raises(graph.ItemFailed, match="Split: AttributeError: 'int' object has no"):
        graph.SerialRun(built(), tmp_path).run({"line": 5})


def test_a_task_is_tried_again_as_often_as_it_says(tmp_path):
    tried: list[int] = []

    @graph.task(retries=2)
    def flaky(x: int) -> int:
        tried.append(x)
        if len(tried) < 3:
            raise OSError("not yet")
        return x

    with graph.Graph("flaky") as g:
        g.output(flaky(g.input("x", int)))
    assert graph.SerialRun(g, tmp_path).run({"x": 5}) == {"": 5}
    assert tried == [5, 5, 5]


def test_a_description_survives_json_and_another_graph_has_another_digest():
    document = json.loads(json.dumps(built().description.document()))

    assert GraphDescription.parse(document) == built().description
    assert {(one["from"], one["to"]) for one in document["edges"]} >= {("Split", "shout"), ("shout", "join")}
    document["tasks"][0]["max_size"] = 5
    with pytest.raises(ProtocolError, match="digest"):
        GraphDescription.parse(document)


def test_a_document_with_a_cycle_is_refused():
    document = built().description.document()
    del document["digest"]
    document["nodes"][0]["inputs"][0]["name"] = "join"

    with pytest.raises(ProtocolError, match="takes join, which comes after it: a cycle"):
        GraphDescription.parse(document)


def test_a_task_is_a_plain_function_or_object_outside_of_a_graph():
    split = Split("-")
    split.load({})

    assert shout("a") == "A!"
    assert split.run(["a-b"]) == [WordCount(["a", "b"], 2)]


def refusals() -> dict[str, Any]:
    def two_loads(g: graph.Graph, line: Any) -> None:
        Split()(line)
        g.output(Split()(line))

    def unknown_field(g: graph.Graph, line: Any) -> None:
        g.output(Split()(line).lines)

    def wrong_type(g: graph.Graph, line: Any) -> None:
        g.output(shout(Split()(line).count))

    def no_list(g: graph.Graph, line: Any) -> None:
        g.output(shout.each(line))

    def unknown_input(g: graph.Graph, line: Any) -> None:
        g.output(shout(g.input("time", WordCount)))

    def nobody_makes(g: graph.Graph, line: Any) -> None:
        with graph.Graph("other") as other:
            g.output(shout(other.input("line", str)))

    def nobody_uses(g: graph.Graph, line: Any) -> None:
        shout(line)
        g.output(Split()(line))

    def looked_into(g: graph.Graph, line: Any) -> None:
        g.output(shout(line) if line else line)

    return {
        "Split is loaded twice": two_loads,
        "WordCount has no such field; there are: count, text": unknown_field,
        "value 1 of shout must be str; Split is int": wrong_type,
        "shout.each takes a list; line is str": no_list,
        "unknown type WordCount": unknown_input,
        "takes a value that this graph makes": nobody_makes,
        "nobody uses shout": nobody_uses,
        "use task.when": looked_into,
    }


@pytest.mark.parametrize(
    ("reason", "build"), refusals().items(), ids=lambda one: getattr(one, "__name__", "")
)
def test_what_cannot_run_is_refused_with_its_line(reason, build):
    with pytest.raises(graph.GraphError) as refusal, graph.Graph("wrong") as g:
        build(g, g.input("line", str))

    assert reason in str(refusal.value)
    line = int(str(refusal.value).partition("line ")[2].partition(":")[0])
    first = build.__code__.co_firstlineno
    assert str(refusal.value).startswith("test_program.py")
    assert first < line <= first + 3


def test_a_plan_must_fit_its_graph():
    description = built().description
    document = json.loads(json.dumps(graph.GraphPlan.of_one_each(description).document()))

    assert graph.GraphPlan.parse(document, description) == graph.GraphPlan.of_one_each(description)
    document["tasks"]["Split"]["max_size"] = 5
    with pytest.raises(ProtocolError, match="max_size of Split must be at most its batch's, 4"):
        graph.GraphPlan.parse(document, description)
    del document["tasks"]["Split"]
    with pytest.raises(ProtocolError, match="differ: Split"):
        graph.GraphPlan.parse(document, description)


def test_pictures_that_are_too_large_are_refused_by_their_header():
    from serving.graphs.encoding import checked_image

    head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
    bomb = head + (60_000).to_bytes(4, "big") * 2

    with pytest.raises(graph.ItemFailed, match="60000 x 60000"):
        checked_image(bomb)
    with pytest.raises(graph.ItemFailed, match="no PNG"):
        checked_image(b"GIF89a")
    assert checked_image(head + (6).to_bytes(4, "big") * 2)


def test_a_task_with_a_model_of_its_own_loads_its_files_and_says_where_they_lack(tmp_path):
    @graph.task(model="words:v3")
    class Marked:
        def load(self, files: Any) -> None:
            self.mark = files["mark"].read_text()

        def run(self, lines: list[str]) -> list[str]:
            return [line + self.mark for line in lines]

    with graph.Graph("marking") as g:
        g.output(Marked()(g.input("line", str)))
    (tmp_path / "mark.txt").write_text("of the graph's own version")
    with pytest.raises(graph.GraphError, match=r"words:v3, whose files are not in task_models/words/v3"):
        graph.SerialRun(g, tmp_path)
    (tmp_path / "task_models/words/v3").mkdir(parents=True)
    (tmp_path / "task_models/words/v3/mark.txt").write_text("!")
    assert graph.SerialRun(g, tmp_path).run({"line": "a"}) == {"": "a!"}
    for model, target in (("words", Marked.target), ("words:v3", len)):
        with pytest.raises(graph.GraphError, match=r"must be MODEL:VERSION|loads no model"):
            graph.task(model=model)(target)
