"""Cut the MLP channels that matter least: by the norm of their activations times that of their weights.

All layers keep one width, a multiple of 64, so that any engine loads the result (Wanda's measure on whole
channels; Sun et al. 2023, An et al. 2023).
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer

from optimization.recipes.local.checkpoints import TrainingCheckpoints
from optimization.recipes.order import MakingOrder, RecipeRefusal, Report

MULTIPLE = 64
MOST_TEXTS = 256
BATCH = 8
RATE = 3e-4


def make(order: MakingOrder, report: Report) -> dict[str, Any]:
    torch.manual_seed(order.seed)
    config = order.config()
    if "quantization_config" in config:
        raise RecipeRefusal("The model is quantized: prune its parent first, then quantize the result.")
    width = config.get("intermediate_size")
    if not isinstance(width, int):
        raise RecipeRefusal(
            "Its config names no intermediate_size: channels of this architecture are unknown."
        )
    kept = kept_width(width, float(order.parameters["share"]))
    if kept >= width:
        raise RecipeRefusal(
            f"Nothing would be removed: {width} channels less {order.parameters['share']:.0%}, as a multiple "
            f"of {MULTIPLE}, are {kept}. Remove a larger share."
        )
    model: Any = AutoModelForCausalLM.from_pretrained(
        order.source, local_files_only=True, trust_remote_code=False, use_safetensors=True
    ).eval()
    tokenizer = AutoTokenizer.from_pretrained(order.source, local_files_only=True, trust_remote_code=False)
    tokens = _tokens(order, tokenizer, int(config.get("max_position_embeddings") or 512))
    blocks = list(_blocks(model))
    if not blocks:
        raise RecipeRefusal("It has no gated MLP (gate_proj, up_proj, down_proj), which this recipe cuts.")
    checkpoints = TrainingCheckpoints(order.checkpoint)
    before = checkpoints.read()
    if before is None:
        norms = _activation_norms(model, blocks, tokens, report)
        chosen = [_chosen(block, norm, kept) for block, norm in zip(blocks, norms, strict=True)]
    else:
        chosen = before["channels"]
    for block, channels in zip(blocks, chosen, strict=True):
        _cut(block, channels)
    model.config.intermediate_size = kept
    recovery = Recovery(model, tokens, steps=int(order.parameters["recovery_steps"]), seed=order.seed)
    if before is not None:
        recovery.restore(before)
    began_at = recovery.step
    for step in recovery:
        report("recovering", step, recovery.steps)
        if checkpoints.is_due:
            checkpoints.keep({"channels": chosen, **recovery.state()})
    order.keep_companions()
    # Without its card and code: files as they were loaded, weights in safetensors.
    model.save_pretrained(order.output, safe_serialization=True)
    details: dict[str, Any] = {"width": kept, "width_before": width}
    if recovery.loss is not None:
        details["loss"] = round(recovery.loss, 4)
    if began_at:
        details["resumed_after_steps"] = began_at
    return details


def kept_width(width: int, share: float) -> int:
    """Return the width that is left, rounded to the nearest multiple of 64, at least one of them."""
    return max(MULTIPLE, round(width * (1 - share) / MULTIPLE) * MULTIPLE)


def _blocks(model: Any) -> Iterator[Any]:
    for module in model.modules():
        parts = [getattr(module, name, None) for name in ("gate_proj", "up_proj", "down_proj")]
        if all(isinstance(part, nn.Linear) for part in parts):
            yield module


def _tokens(order: MakingOrder, tokenizer: Any, context: int) -> list[Tensor]:
    length = min(context, 512)
    found = []
    for text in order.texts():
        ids = tokenizer(text, truncation=True, max_length=length, return_tensors="pt")["input_ids"][0]
        if len(ids) > 1:
            found.append(ids)
        if len(found) == MOST_TEXTS:
            break
    if len(found) < 8:
        raise RecipeRefusal(
            f"The calibration set has {len(found)} texts of two tokens or more; 8 are needed."
        )
    return found


def _activation_norms(model: Any, blocks: list[Any], tokens: list[Tensor], report: Report) -> list[Tensor]:
    """Return, for each block, the sum of squares that each channel brings into `down_proj`."""
    sums = [torch.zeros(block.down_proj.in_features) for block in blocks]
    hooks = [
        block.down_proj.register_forward_pre_hook(
            lambda _module, inputs, place=place: sums[place].add_(
                inputs[0].detach().float().flatten(0, -2).square().sum(0)
            )
        )
        for place, block in enumerate(blocks)
    ]
    with torch.inference_mode():
        for done, ids in enumerate(tokens, 1):
            model(input_ids=ids[None])
            report("measuring", done, len(tokens))
    for hook in hooks:
        hook.remove()
    return sums


def _chosen(block: Any, squares: Tensor, kept: int) -> Tensor:
    """Return the channels that stay, in their former order: the same input gives the same file."""
    importance = squares.sqrt() * block.down_proj.weight.detach().float().norm(dim=0)
    chosen: Tensor = importance.topk(kept).indices.sort().values
    return chosen


def _cut(block: Any, chosen: Tensor) -> None:
    kept = len(chosen)
    for name, axis in (("gate_proj", 0), ("up_proj", 0), ("down_proj", 1)):
        layer = getattr(block, name)
        layer.weight = nn.Parameter(layer.weight.detach().index_select(axis, chosen).contiguous())
        if axis == 0:
            layer.out_features = kept
            if layer.bias is not None:
                layer.bias = nn.Parameter(layer.bias.detach()[chosen].contiguous())
        else:
            layer.in_features = kept


class Recovery:
    """Trains the whole model shortly on the calibration set: iterate over its steps."""

    def __init__(self, model: Any, tokens: list[Tensor], *, steps: int, seed: int) -> None:
        self.steps = steps
        self.step = 0
        self.loss: float | None = None
        self._model = model
        self._tokens = tokens
        self._draw = torch.Generator().manual_seed(seed)
        self._optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)

    def __iter__(self) -> Iterator[int]:
        self._model.train()
        while self.step < self.steps:
            self._train()
            yield self.step
        self._model.eval()

    def state(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "model": self._model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "draw": self._draw.get_state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.step = state["step"]
        self._model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._draw.set_state(state["draw"])

    def _train(self) -> None:
        tokens = self._tokens
        chosen = torch.randint(len(tokens), (min(BATCH, len(tokens)),), generator=self._draw)
        some = [tokens[int(one)] for one in chosen]
        ids = nn.utils.rnn.pad_sequence(some, batch_first=True)
        mask = nn.utils.rnn.pad_sequence([torch.ones_like(one) for one in some], batch_first=True)
        labels = ids.masked_fill(mask == 0, -100)
        loss = self._model(input_ids=ids, attention_mask=mask, labels=labels).loss
        loss.backward()
        nn.utils.clip_grad_norm_(self._model.parameters(), 1.0)
        for group in self._optimizer.param_groups:
            group["lr"] = RATE * (1 - self.step / self.steps)
        self._optimizer.step()
        self._optimizer.zero_grad()
        self.step += 1
        self.loss = float(loss.detach())
