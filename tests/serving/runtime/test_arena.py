"""Blocks of shared memory, from their owner to their reader and back."""

import os

import numpy as np
import pytest

from serving.runtime.arena import Arena, ArenaUnavailable, ArenaView
from serving.runtime.packing import pack, unpack

SIZE = 2**20


def pair() -> tuple[Arena, ArenaView]:
    arena = Arena(SIZE)
    return arena, ArenaView(os.dup(arena.descriptor), SIZE)


def sent(arena: Arena, view: ArenaView, value: object) -> object:
    pickled, beside = pack(value)
    places = [arena.share(data) for data in beside]
    assert None not in places
    return unpack(pickled, [view.open(place) for place in places if place])


def test_an_array_written_in_place_is_read_at_the_same_bytes() -> None:
    arena, view = pair()
    chunk = arena.allocate(400_000)
    assert chunk is not None
    array = np.ndarray((100_000,), np.float32, chunk)
    array[:] = 1
    read = sent(arena, view, (array,))[0]  # type: ignore[index]
    array[7] = 5
    assert read[7] == 5, "a copy was made"


def test_a_block_is_free_when_neither_side_refers_to_it() -> None:
    arena, view = pair()
    read = sent(arena, view, (np.ones(100_000, np.float32),))
    part = read[0][10:20].reshape(2, 5)  # type: ignore[index]
    del read
    assert arena.used, "a view of a view still looks into the block"
    del part
    assert arena.used == 0


def test_an_array_that_is_being_read_is_copied_when_it_is_sent_again() -> None:
    arena, _ = pair()
    chunk = arena.allocate(100_000)
    assert chunk is not None
    first = arena.share(chunk)
    second = arena.share(chunk)
    assert first is not None
    assert second is not None
    assert first.offset != second.offset


def test_a_full_arena_gives_nothing_and_goes_on_when_there_is_room() -> None:
    arena, _ = pair()
    held = [arena.allocate(200_000) for _ in range(6)]
    assert [one is None for one in held] == [False] * 5 + [True]
    held.pop(2)
    assert arena.allocate(150_000) is not None


@pytest.mark.parametrize("kind", ["float32", "int64", "bool", "complex64"])
def test_arrays_of_all_shapes_survive_the_way(kind: str) -> None:
    arena, view = pair()
    for array in (
        np.zeros((3, 0), kind),
        np.ones((70, 100), kind),
        np.ones((70, 100), kind).T,
        np.ones((), kind),
    ):
        read = sent(arena, view, array)
        assert isinstance(read, np.ndarray)
        np.testing.assert_array_equal(read, array)
        assert read.dtype == array.dtype


@pytest.mark.process
def test_tensors_survive_the_way_without_a_copy_of_their_own() -> None:
    import torch

    arena, view = pair()
    for tensor in (
        torch.ones(50_000),
        torch.ones(50_000, dtype=torch.bfloat16),
        torch.ones(40_000).requires_grad_(),
    ):
        read = sent(arena, view, {"x": tensor})["x"]  # type: ignore[index]
        assert torch.equal(read, tensor.detach())
        assert read.dtype is tensor.dtype
        assert arena.used, "it lies in the arena"
        del read
    assert arena.used == 0


def test_no_memory_file_is_said_rather_than_met(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "memfd_create", none)
    with pytest.raises(ArenaUnavailable, match="No space"):
        Arena(SIZE)
