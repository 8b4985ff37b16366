"""Answer a tiny task of each kind by a tiny random model in this environment: its scores must be numbers."""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from optimization.programs.scoring import ScoringRefusal
from optimization.programs.self_test import WORDS, write_model
from optimization.programs.task_scoring import scores_of
from optimization.task_files import METRICS

KINDS: dict[str, dict[str, Any]] = {
    "multiple_choice": {
        "doc_to_text": "{{question}}", "doc_to_choice": "{{choices}}", "doc_to_target": "{{answer}}",
    },
    "generate_until": {
        "doc_to_text": "{{question}}", "doc_to_target": "{{choices[0]}}",
        "generation_kwargs": {"until": ["w1"], "max_gen_toks": 4},
    },
    "loglikelihood_rolling": {"doc_to_text": "", "doc_to_target": "{{question}}"},
}  # fmt: skip
ITEMS = 4


def failure(directory: Path) -> str:
    """Return why lm-eval does not work; empty: it does."""
    write_model(directory / "model")
    data = directory / "items.jsonl"
    lines = [
        {"question": " ".join(WORDS[one : one + 8]), "choices": [WORDS[0], WORDS[1]], "answer": 0}
        for one in range(ITEMS)
    ]
    data.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for kind, templates in KINDS.items():
        task = {
            "task": kind,
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"test": str(data)}},
            "test_split": "test",
            "output_type": kind,
            "metric_list": [{"metric": name} for name in sorted(METRICS[kind])],
            **templates,
        }
        try:
            found = scores_of(directory / "model", task)
        except ScoringRefusal as error:
            return str(error)
        if len(found) != ITEMS * len(METRICS[kind]):
            return f"{kind} has {len(found)} scores of {ITEMS} items"
    return ""


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        words = failure(Path(scratch))
    if words:
        sys.stderr.write(f"{words}\n")
        sys.exit(1)
