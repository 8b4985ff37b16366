"""Calibration texts as tokens, for the programs of all families. Imports no Django."""

from collections.abc import Iterator
from typing import Any

from optimization.recipes.order import MakingOrder, RecipeRefusal

MOST_TEXTS = 256
MOST_TOKENS = 512
LEAST_TEXTS = 8


def token_lists(order: MakingOrder, tokenizer: Any) -> Iterator[list[int]]:
    """Yield the first texts of the calibration set. Raises RecipeRefusal where too few can be used."""
    length, found = min(order.config().get("max_position_embeddings") or MOST_TOKENS, MOST_TOKENS), 0
    for text in order.texts():
        ids = tokenizer(text, truncation=True, max_length=length)["input_ids"]
        if len(ids) > 1:
            found += 1
            yield ids
        if found == MOST_TEXTS:
            return
    if found < LEAST_TEXTS:
        raise RecipeRefusal(
            f"The calibration set has {found} texts of two tokens or more; {LEAST_TEXTS} are needed."
        )
