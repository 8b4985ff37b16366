"""Models and handlers in a plain test."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from serving.runtime.shapes import pad, padded_shape
from slipway import serve


class Doubler(serve.GpuModel):
    def load(self, files: Mapping[str, Path]) -> None:
        self.factor = int(files["factor"].read_text())

    @serve.batched(max_size=8)
    def double(self, numbers: list[int]) -> list[int]:
        return [self.factor * number for number in numbers]


def handler(number: int) -> int:
    doubled: int = serve.get(Doubler).run("double", number)
    return doubled


def test_a_model_is_a_plain_object(tmp_path: Path) -> None:
    (tmp_path / "factor.txt").write_text("2")
    model = Doubler()
    model.load(serve.Files(tmp_path))
    assert model.double([1, 2]) == [2, 4]


def test_a_handler_runs_with_its_models_in_the_test(tmp_path: Path) -> None:
    (tmp_path / "factor.txt").write_text("3")
    with serve.in_process(Doubler, files=tmp_path):
        assert handler(4) == 12
    with pytest.raises(serve.AppError):
        handler(4)


def test_a_missing_file_names_those_that_are_there(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").touch()
    with pytest.raises(KeyError, match=r"weights\.bin"):
        serve.Files(tmp_path)["factor"]


def test_items_of_equal_padded_length_share_a_batch() -> None:
    import numpy as np

    key = padded_shape(4)
    assert key(np.ones(3)) == key(np.ones(4)) != key(np.ones(5))
    stacked, lengths = pad([np.ones(3), np.ones(2)], multiple=4)
    assert (stacked.shape, lengths, stacked.sum()) == ((2, 4), [3, 2], 5)
