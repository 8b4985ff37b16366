"""Which request takes part in which forward step."""

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from serving.engines.base import Piece
from serving.openai import TextRequest

if TYPE_CHECKING:
    from serving.engines.causal import CausalModel, Continuation

Batching = Literal["continuous", "static", "off"]


class StepScheduler:
    """The requests in the slots of one model.

    `continuous`: every step reads one token of each answer and parts of new prompts, `prefill_tokens` in all,
    so that a long prompt delays nobody for long. `static`: the same, but nobody enters until all have left.
    `off`: each request takes steps of its own, in turn.
    """

    def __init__(self, model: "CausalModel", *, slots: int, batching: Batching) -> None:
        self._model = model
        self._batching = batching
        self._free = list(range(slots))
        self._slots: dict[Continuation, int] = {}
        self._closed = False
        self.forward_steps = 0

    @property
    def has_room(self) -> bool:
        """Whether a request may enter now."""
        return bool(self._free) and not self._closed

    def enter(self, request: TextRequest) -> "Continuation":
        """Give the request a slot. Raises RequestFault."""
        seed = request.sampling.seed
        continuation = self._model.begin(request, seed=random.getrandbits(63) if seed is None else seed)
        # The lowest: a step computes over the slots up to the highest that is in use.
        slot = min(self._free)
        self._free.remove(slot)
        self._slots[continuation] = slot
        return continuation

    def leave(self, continuation: "Continuation") -> None:
        """Free the slot; twice is once."""
        slot = self._slots.pop(continuation, None)
        if slot is not None:
            self._free.append(slot)
        self._closed = self._closed and bool(self._slots)

    def step(self) -> Iterator[tuple["Continuation", Piece | Exception]]:
        """Take one step with everybody; yield new pieces, and errors with the request that made them."""
        self._closed = self._batching == "static"
        if self._batching == "off":
            for continuation in tuple(self._slots):
                self.forward_steps += 1
                try:
                    piece = continuation.step_alone()
                except Exception as error:
                    yield continuation, error
                else:
                    if piece is not None:
                        yield continuation, piece
        else:
            yield from self._together(self._parts())

    def _parts(self) -> dict["Continuation", list[int]]:
        left = self._model.settings.prefill_tokens
        parts = {}
        for continuation in self._slots:
            ids = continuation.next_ids(left if continuation.is_reading else 1)
            if continuation.is_reading:
                left -= len(ids)
            if ids:
                parts[continuation] = ids
        return parts

    def _together(
        self, parts: dict["Continuation", list[int]]
    ) -> Iterator[tuple["Continuation", Piece | Exception]]:
        segments = [one.segment(self._slots[one], ids) for one, ids in parts.items()]
        self.forward_steps += 1
        try:
            rows = self._model.forward_together(segments)
        except Exception as error:
            if len(parts) == 1 or self._model.judged(error).status == 503:
                yield next(reversed(parts)), error
            else:
                # One of them spoils the step for all: each tries by itself.
                for continuation, ids in parts.items():
                    yield from self._together({continuation: ids})
            return
        for (continuation, ids), logits in zip(parts.items(), rows, strict=True):
            try:
                piece = continuation.accept(ids, logits)
            except Exception as error:
                yield continuation, error
            else:
                if piece is not None:
                    yield continuation, piece
