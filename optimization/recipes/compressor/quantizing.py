"""Quantize by llm-compressor: AWQ, GPTQ, SmoothQuant, MinMax and FP8, in compressed-tensors' layout."""

from collections.abc import Mapping
from typing import Any

from optimization.recipes.order import MakingOrder, RecipeRefusal, Report
from optimization.recipes.texts import MOST_TOKENS, token_lists

_INT4 = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 128}
_INT8 = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel"}
_INT8_TENSOR = {**_INT8, "strategy": "tensor"}
_FP8 = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "channel"}
_FP8_TENSOR = {**_FP8, "strategy": "tensor"}
_BY_TOKEN = {"strategy": "token", "dynamic": True}
_MLP, _ATTENTION = r"re:.*\.(gate|up|down)_proj$", r"re:.*\.(q|k|v|o)_proj$"

Group = Mapping[str, Any]
SCHEMES: Mapping[str, Mapping[str, Group]] = {
    "w4a16": {"linear": {"targets": ["Linear"], "weights": _INT4}},
    "w8a8": {
        "linear": {"targets": ["Linear"], "weights": _INT8, "input_activations": {**_INT8, **_BY_TOKEN}}
    },
    "w8a8-static": {
        "linear": {"targets": ["Linear"], "weights": _INT8_TENSOR, "input_activations": _INT8_TENSOR}
    },
    "fp8": {"linear": {"targets": ["Linear"], "weights": _FP8, "input_activations": {**_FP8, **_BY_TOKEN}}},
    "fp8-static": {
        "linear": {"targets": ["Linear"], "weights": _FP8_TENSOR, "input_activations": _FP8_TENSOR}
    },
    "mixed": {
        "mlp": {"targets": [_MLP], "weights": _INT4},
        "attention": {
            "targets": [_ATTENTION], "weights": _FP8, "input_activations": {**_FP8, **_BY_TOKEN}
        },
    },
}  # fmt: skip
KV_CACHE: Mapping[str, Any] = {**_FP8_TENSOR, "dynamic": False}


def make(order: MakingOrder, report: Report) -> dict[str, Any]:
    import torch
    from datasets import Dataset
    from llmcompressor import oneshot
    from llmcompressor.modifiers.gptq import GPTQModifier
    from llmcompressor.modifiers.quantization import QuantizationModifier
    from llmcompressor.modifiers.transform import AWQModifier, SmoothQuantModifier
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.manual_seed(order.seed)
    parameters = order.parameters
    if "quantization_config" in order.config():
        raise RecipeRefusal("The model is quantized already: choose its parent, which is not.")
    groups = {name: _sized(group, parameters) for name, group in SCHEMES[parameters["scheme"]].items()}
    tokenizer = AutoTokenizer.from_pretrained(order.source, local_files_only=True, trust_remote_code=False)
    model: Any = AutoModelForCausalLM.from_pretrained(
        order.source, local_files_only=True, trust_remote_code=False, use_safetensors=True
    )
    check_groups(model, groups)
    kinds = {"gptq": GPTQModifier, "nearest": QuantizationModifier, "awq": QuantizationModifier}
    cache = {"kv_cache_scheme": KV_CACHE} if parameters.get("kv_cache") else {}
    recipe = [kinds[parameters["method"]](config_groups=groups, ignore=["lm_head"], **cache)]
    if parameters["method"] == "awq":
        recipe.insert(0, AWQModifier())
    if strength := parameters.get("smoothing"):
        recipe.insert(0, SmoothQuantModifier(smoothing_strength=strength))
    data: dict[str, Any] = {}
    if order.calibration:
        texts = list(token_lists(order, tokenizer))
        masks = [[1] * len(one) for one in texts]
        data = {
            "dataset": Dataset.from_dict({"input_ids": texts, "attention_mask": masks}),
            "num_calibration_samples": len(texts),
            "max_seq_length": MOST_TOKENS,
        }
    report("calibrating", 0, 1)
    oneshot(model=model, tokenizer=tokenizer, recipe=recipe, **data)
    order.keep_companions()
    model.save_pretrained(order.output, save_compressed=True)
    (order.output / "recipe.yaml").unlink(missing_ok=True)
    return {"calibration_texts": data.get("num_calibration_samples", 0)}


def _sized(group: Group, parameters: Mapping[str, Any]) -> Group:
    if group["weights"]["strategy"] != "group":
        return group
    return {**group, "weights": {**group["weights"], "group_size": parameters["group_size"]}}


def check_groups(model: Any, groups: Mapping[str, Group]) -> None:
    for group in groups.values():
        size = group["weights"].get("group_size")
        widths = {module.in_features for module in model.modules() if hasattr(module, "in_features")}
        if size and (wrong := sorted(width for width in widths if width % size)):
            raise RecipeRefusal(
                f"Groups of {size} do not divide layers of {', '.join(map(str, wrong))} inputs: choose a "
                "smaller group_size."
            )
