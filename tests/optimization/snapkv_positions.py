"""Print the positions that kvpress' SnapKV keeps of a prompt, in the environment of the family `press`."""

import json
import sys
from typing import Any

import torch
from kvpress import SnapKVPress
from transformers import AutoModelForCausalLM, DynamicCache


def kept_positions(directory: str, share: float, recent: int, ids: list[int]) -> list[Any]:
    """Return them by layer and head of keys, ascending."""
    model = AutoModelForCausalLM.from_pretrained(directory, attn_implementation="sdpa").eval()
    found: list[Any] = []

    class TellingPress(SnapKVPress):  # type: ignore[misc]
        def score(self, *given: Any, **named: Any) -> Any:
            scores = super().score(*given, **named)
            found.append(scores[0].topk(int(len(ids) * share)).indices.sort().values.tolist())
            return scores

    cache = DynamicCache(config=model.config)
    with torch.inference_mode(), TellingPress(compression_ratio=1 - share, window_size=recent)(model):
        model(input_ids=torch.tensor([ids]), past_key_values=cache)
    return found


if __name__ == "__main__":
    positions = kept_positions(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4]))
    sys.stdout.write(json.dumps(positions) + "\n")
