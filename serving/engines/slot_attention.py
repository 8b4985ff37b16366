"""Attention of many requests in one forward step, over a KV cache that has a slot for each of them.

The tokens of all requests stand one after another in a batch of one: the linear layers see no padding. Keys
and values are written in place into the slots, and read as views of them: a step copies no cache. Requests
that make one token share one attention call; each part of a prompt has its own. transformers' own continuous
batching gathers the pages of every request anew at each step, which a CPU pays for.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from serving.engines.base import EngineError
from serving.engines.kv_eviction import KvEviction

if TYPE_CHECKING:
    from serving.engines.lora import LoraAdapter

IMPLEMENTATION = "slipway_slots"
SMALLEST_CAPACITY = 128


@dataclass(frozen=True, slots=True)
class Segment:
    """Tokens that one request brings to a step: `ids` at the places from `start` on of its slot."""

    slot: int
    start: int
    ids: Sequence[int]
    adapter: "LoraAdapter | None" = None
    evicted: int = 0
    """Tokens before it that left the slot: its positions are that many higher than its places."""
    keep: int = 0
    """Above 0: it belongs to a prompt of which so many tokens stay, once all is read."""
    ends_prompt: bool = False

    @property
    def end(self) -> int:
        return self.start + len(self.ids)


@dataclass
class SlotCache:
    """Keys and values of all layers, as `[slots, heads, capacity, width]`; the capacity doubles when it must.

    Stands where transformers expects its own `Cache`, for the length of one step at a time.
    """

    slots: int
    limit: int
    """Tokens that a slot may hold at most."""
    keys: dict[int, torch.Tensor] = field(default_factory=dict)
    values: dict[int, torch.Tensor] = field(default_factory=dict)
    eviction: KvEviction | None = None
    decoding: Sequence[Segment] = ()
    prompts: Sequence[Segment] = ()
    _masks: dict[int, torch.Tensor] = field(default_factory=dict)
    _queries: dict[int, dict[int, torch.Tensor]] = field(default_factory=dict)
    """Last queries of prompts that will lose tokens, by slot and layer; `_new_queries`: of this step."""
    _new_queries: dict[int, dict[int, torch.Tensor]] = field(default_factory=dict)
    _scaling: float | None = None

    def begin(self, segments: Sequence[Segment], device: torch.device) -> list[Segment]:
        """Set the segments of the next step; return them in the order in which their tokens must stand."""
        self.decoding = [segment for segment in segments if len(segment.ids) == 1 and not segment.keep]
        self.prompts = [segment for segment in segments if len(segment.ids) > 1 or segment.keep]
        self._masks.clear()
        self._new_queries.clear()
        self._slots = torch.tensor([segment.slot for segment in self.decoding], device=device)
        self._positions = torch.tensor([segment.start for segment in self.decoding], device=device)
        return [*self.decoding, *self.prompts]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return 0: positions are given with the tokens."""
        return 0

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the step's keys and values, `[1, heads, tokens, width]`, into their slots."""
        for store, new in ((self.keys, keys), (self.values, values)):
            slots = self._room(store, layer_idx, new)
            count = len(self.decoding)
            if count:
                slots[self._slots, :, self._positions] = new[0, :, :count].transpose(0, 1)
            for segment in self.prompts:
                slots[segment.slot, :, segment.start : segment.end] = new[
                    0, :, count : count + len(segment.ids)
                ]
                count += len(segment.ids)
        return keys, values

    def _room(self, store: dict[int, torch.Tensor], layer: int, new: torch.Tensor) -> torch.Tensor:
        needed = max(segment.end for segment in (*self.decoding, *self.prompts))
        old = store.get(layer)
        if old is None or old.shape[2] < needed:
            held = 0 if old is None else old.shape[2]
            capacity = min(self.limit, max(needed, 2 * held, SMALLEST_CAPACITY))
            grown = new.new_zeros(self.slots, new.shape[1], capacity, new.shape[3])
            if old is not None:
                grown[:, :, :held] = old
            store[layer] = grown
        return store[layer]

    def attend(
        self, layer: int, query: torch.Tensor, *, scaling: float | None, window: int | None
    ) -> torch.Tensor:
        """Return `[1, tokens, heads, width]` for queries `[1, heads, tokens, width]` of the step's tokens."""
        keys, values = self.keys[layer], self.values[layer]
        heads, groups = query.shape[1], query.shape[1] // keys.shape[1]
        answer = query.new_empty(1, query.shape[2], heads, values.shape[3])
        count = len(self.decoding)
        if count:
            span, longest = int(self._slots.max()) + 1, int(self._positions.max()) + 1
            asked = query.new_zeros(span, heads, query.shape[3])
            asked[self._slots] = query[0, :, :count].transpose(0, 1)
            attended = scaled_dot_product_attention(
                # The heads of a group ask the same keys: they stand as positions of one head.
                asked.view(span, keys.shape[1], groups, -1),
                keys[:span, :, :longest],
                values[:span, :, :longest],
                attn_mask=self._decoding_mask(span, longest, window or 0),
                scale=scaling,
            )
            answer[0, :count] = attended.reshape(span, heads, -1)[self._slots]
        for segment in self.prompts:
            tokens = slice(count, count + len(segment.ids))
            asked = query[0, :, tokens].reshape(keys.shape[1], groups, len(segment.ids), -1)
            attended = scaled_dot_product_attention(
                asked,
                keys[segment.slot, :, None, : segment.end].expand(-1, groups, -1, -1),
                values[segment.slot, :, None, : segment.end].expand(-1, groups, -1, -1),
                attn_mask=_prompt_mask(segment, window or 0, query.device),
                scale=scaling,
            )
            answer[0, tokens] = attended.flatten(0, 1).transpose(0, 1)
            count += len(segment.ids)
            if segment.keep:
                self._note_queries(segment, layer, asked.flatten(0, 1), scaling=scaling, window=window)
        return answer

    def _note_queries(
        self,
        segment: Segment,
        layer: int,
        queries: torch.Tensor,
        *,
        scaling: float | None,
        window: int | None,
    ) -> None:
        if window or self.eviction is None:
            raise EngineError("its attention sees a sliding window alone, from which no token can be evicted")
        earlier = self._queries.get(segment.slot, {}).get(layer) if segment.start else None
        noted = queries if earlier is None else torch.cat((earlier, queries), 1)
        self._new_queries.setdefault(segment.slot, {})[layer] = noted[:, -self.eviction.recent :].clone()
        self._scaling = scaling

    def end(self) -> None:
        """End a step that all layers have taken: prompts that are read whole lose what does not stay."""
        self._queries |= self._new_queries
        kept: list[tuple[torch.Tensor, torch.Tensor]] = []
        for segment in self.prompts:
            if not (segment.keep and segment.ends_prompt and self.eviction):
                continue
            for layer, queries in self._queries[segment.slot].items():
                keys = self.keys[layer][segment.slot, :, : segment.end]
                chosen = self.eviction.chosen(queries, keys, scaling=self._scaling, kept=segment.keep)
                for slots in (self.keys[layer], self.values[layer]):
                    held = slots[segment.slot]
                    places = chosen[..., None].expand(-1, -1, held.shape[2])
                    kept.append((held[:, : segment.keep], held.gather(1, places)))
        # All at once at the end: a step that failed before may be taken again.
        for place, tensor in kept:
            place.copy_(tensor)
        for segment in self.prompts:
            if segment.ends_prompt:
                self._queries.pop(segment.slot, None)

    def _decoding_mask(self, span: int, longest: int, window: int) -> torch.Tensor:
        """Return which keys each slot may see: `[span, 1, 1, longest]`, one mask per step for all layers."""
        if window not in self._masks:
            at = torch.zeros(span, dtype=torch.long, device=self._slots.device)
            at[self._slots] = self._positions
            key = torch.arange(longest, device=at.device)
            mask = key <= at[:, None]
            if window:
                mask &= key > at[:, None] - window
            self._masks[window] = mask[:, None, None, :]
        return self._masks[window]


def _prompt_mask(segment: Segment, window: int, device: torch.device) -> torch.Tensor:
    at = torch.arange(segment.start, segment.end, device=device)[:, None]
    key = torch.arange(segment.end, device=device)
    mask = key <= at
    return mask & (key > at - window) if window else mask


def _attend(
    module: Any,
    query: torch.Tensor,
    *_of_this_step: torch.Tensor | None,
    slot_cache: SlotCache,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Implement transformers' attention. Raises EngineError for variants that need other products."""
    if softcap is not None:
        raise EngineError("its attention has soft caps (attn_logit_softcapping)")
    if s_aux is not None:
        raise EngineError("its attention has sinks")
    return slot_cache.attend(module.layer_idx, query, scaling=scaling, window=sliding_window), None


AttentionInterface.register(IMPLEMENTATION, _attend)
