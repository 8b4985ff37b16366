"""Task files of lm-eval: what is taken, and what is refused before anything runs."""

from pathlib import Path

import pytest

from optimization.accuracy import outcome_of
from optimization.items import BadItems
from optimization.task_files import documents_of_test, read_task, text_digests
from optimization.verdicts import accuracy_gate
from tests.optimization.tiny import sentences, write_items, write_task


def test_a_task_file_names_the_data_beside_it(tmp_path: Path) -> None:
    data = write_items(tmp_path / "data.jsonl", sentences(30, seed=3))
    task = read_task(write_task(tmp_path / "tasks", data), root=tmp_path / "tasks")
    assert task["dataset_kwargs"]["data_files"] == {"test": str(tmp_path / "tasks/items.jsonl")}
    documents = documents_of_test(task)
    assert len(documents) == len(text_digests(documents)) == 30


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"{{text}}"', "!function code.target", "names a function"),
        ("dataset_path: json", "dataset_path: acme/set", "dataset_path .* must be json"),
        ("task: prose", "task: prose\nprocess_docs: f", "has process_docs, which is not taken"),
        ("byte_perplexity", "bleu", "must have some of byte_perplexity"),
        ("items.jsonl", "../../items.jsonl", "which its version does not have"),
        ("items.jsonl", "none.jsonl", "which its version does not have"),
        ("task: prose", "task: [1]", "Give task"),
        ("loglikelihood_rolling", "classification", "output_type"),
    ],
)
def test_what_would_run_code_or_fetch_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    data = write_items(tmp_path / "items.jsonl", sentences(2, seed=3))
    path = write_task(tmp_path / "a/tasks", data)
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(BadItems, match=said):
        read_task(path, root=path.parent)


def test_metrics_of_tasks_are_judged_by_their_kind() -> None:
    lines = [{"metric": "qa:acc", "parent": 1.0, "child": float(n >= 40), "text": "x"} for n in range(100)]
    lines += [
        {"metric": "prose:byte_perplexity", "parent": -1.0, "child": -1.0 - n / 1e6, "text": "x"}
        for n in range(50)
    ]
    outcome = outcome_of(lines, margin_percent=1.0)
    assert outcome.results["qa:acc"].child == 0.6
    assert outcome.results["prose:byte_perplexity"].parent == pytest.approx(2.718, abs=0.001)
    state, reason = accuracy_gate(outcome)
    assert state == "rejected"
    assert "qa:acc 60.0% (parent 100.0%)" in reason
