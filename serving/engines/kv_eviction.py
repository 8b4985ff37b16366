"""Eviction of prompt tokens from the KV cache by the attention that the end of the prompt pays them.

SnapKV's scores (Li et al. 2024, arXiv:2404.14469, section 4): attention of the last queries, mean over them
and over the heads of a group, smoothed along the prompt. Each head of keys keeps its own tokens, in all
layers as many; the beginning (Xiao et al. 2023, attention sinks) and the end always stay. Memory and time of
the prompt are as before, each token of the answer reads the kept ones alone.
"""

import math
from dataclasses import dataclass

import torch
from torch.nn import functional

KERNEL = 5
"""Tokens over which scores are smoothed."""


@dataclass(frozen=True, slots=True)
class KvEviction:
    """`share`: of a prompt's tokens that stay; `recent` and `sinks`: tokens of its end and beginning that do
    whatever their score, and the scores are those of the recent ones' queries."""

    share: float
    recent: int
    sinks: int

    def kept(self, prompt_tokens: int) -> int:
        """Return how many tokens of a prompt stay; 0: all of them, it is too short to lose any."""
        kept = max(int(prompt_tokens * self.share), self.recent + self.sinks)
        return kept if kept < prompt_tokens else 0

    def chosen(
        self, queries: torch.Tensor, keys: torch.Tensor, *, scaling: float | None, kept: int
    ) -> torch.Tensor:
        """Return which tokens stay, ascending: `[key heads, kept]`.

        `queries` of the last tokens, `[heads, recent, width]`, and `keys`, `[key heads, tokens, width]`, both
        with their positions.
        """
        heads, recent, _width = queries.shape
        tokens = keys.shape[1]
        scale = scaling if scaling is not None else 1 / math.sqrt(queries.shape[2])
        asked = queries.reshape(keys.shape[0], -1, queries.shape[2]).float()
        logits = (asked @ keys.float().transpose(1, 2) * scale).view(heads, recent, tokens)
        at = torch.arange(tokens - recent, tokens, device=keys.device)
        hidden = torch.arange(tokens, device=keys.device) > at[:, None]
        shares = logits.masked_fill(hidden, -math.inf).softmax(-1)[..., : tokens - recent]
        scores = functional.avg_pool1d(shares.mean(1), KERNEL, stride=1, padding=KERNEL // 2)
        scores = scores.view(keys.shape[0], -1, tokens - recent).mean(1)
        scores[:, : self.sinks] = math.inf
        scores = functional.pad(scores, (0, recent), value=math.inf)
        return scores.topk(kept).indices.sort().values
