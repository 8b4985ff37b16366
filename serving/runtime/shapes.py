"""Buckets and padding by shape, for batched methods whose items differ in length."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any


def shape(*arguments: Any) -> Hashable:
    """Return a key for `bucket`: calls whose arrays have equal shapes and types share a batch."""
    return tuple((tuple(one.shape), str(one.dtype)) if hasattr(one, "shape") else None for one in arguments)


def padded_shape(multiple: int) -> Callable[..., Hashable]:
    """Return a `bucket` of calls whose arrays' first axes are equally long when padded to a multiple."""

    def key(*arguments: Any) -> Hashable:
        return tuple(
            (-(-one.shape[0] // multiple), tuple(one.shape[1:]), str(one.dtype))
            if hasattr(one, "shape")
            else None
            for one in arguments
        )

    return key


def pad(items: Sequence[Any], *, multiple: int = 1) -> tuple[Any, list[int]]:
    """Return one numpy array of all items, padded with zeros along their first axis to a common length that
    is a multiple of `multiple`; and how long each was.
    """
    import numpy as np

    lengths = [len(item) for item in items]
    longest = -(-max(lengths) // multiple) * multiple
    first = np.asarray(items[0])
    padded = np.zeros((len(items), longest, *first.shape[1:]), first.dtype)
    for row, item in zip(padded, items, strict=True):
        row[: len(item)] = item
    return padded, lengths
