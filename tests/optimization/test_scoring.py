"""Scores of items: what can be scored, and what is refused rather than counted as no loss."""

from pathlib import Path
from typing import Any

import pytest
import torch

from optimization.accuracy import margin_of, outcome_of
from optimization.items import read_items
from optimization.programs.scoring import ScoringRefusal, scores_of
from optimization.recipes.modelopt import loading
from optimization.recipes.order import MakingOrder
from optimization.verdicts import accuracy_gate


class Unreported:
    def report(self, progress: dict[str, Any]) -> None:
        pass


def scored(taught: Path, path: Path, *lines: str) -> list[tuple[float, int]]:
    path.write_text("\n".join(lines))
    return list(scores_of(taught, read_items(path), "parent", Unreported()))


def test_the_right_choice_of_a_taught_model_is_the_likeliest(taught: Path, tmp_path: Path) -> None:
    question = '{"prompt": "the cat sees", "choices": [" xq zz", " the tree"], "answer": 1}'
    assert scored(taught, tmp_path / "items", question, '{"text": "the cat sees the tree"}')[0] == (1.0, 1)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"text": "."}', "no token"),
        ('{"prompt": "the cat", "choices": ["", " sees"], "answer": 1}', "no token"),
        ('{"prompt": "%s", "choices": [" a", " b"], "answer": 1}' % ("the cat " * 4_000), "context"),
    ],
)
def test_items_that_cannot_be_scored_are_refused(taught: Path, tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(ScoringRefusal, match=f"item 2 has.*{said}"):
        scored(taught, tmp_path / "items", '{"text": "the cat sees the tree"}', line)


def test_questions_calibrate_by_their_right_answers(tmp_path: Path) -> None:
    path = tmp_path / "items"
    path.write_text(
        '{"text": "One."}\n{"prompt": "Two and"}\n{"prompt": "Is", "choices": ["?", "!"], "answer": 1}\n'
    )
    order = MakingOrder(tmp_path, tmp_path, {}, 0, path)
    assert list(order.texts()) == ["One.", "Two and", "Is!"]


def test_a_refusal_names_the_margin_that_was_given() -> None:
    assert margin_of("perplexity", 50) == pytest.approx(0.405, abs=0.001)
    scores = [{"metric": "perplexity", "parent": -1.0, "child": -2.0 - one / 1000} for one in range(40)]
    state, reason = accuracy_gate(outcome_of(scores, margin_percent=50))
    assert state == "rejected"
    assert "more than 50 %" in reason


def test_modelopts_layers_are_read_as_an_engine_computes_them() -> None:
    """Two rows of 4 bits in a byte, and inputs that are smoothed, then rounded to their scale."""
    codes = torch.tensor([[0x7F, 0x08]], dtype=torch.uint8)
    assert loading._weight(codes, torch.tensor([[0.5], [2.0]])).tolist() == [[-0.5, -4.0], [14.0, 0.0]]
    layer = loading.RoundedLinear(
        torch.eye(2), None, torch.tensor([2.0, 1.0]), torch.tensor(0.25), is_fp8=False
    )
    assert layer(torch.tensor([[0.3, 0.3]])).tolist() == [[0.5, 0.25]]
