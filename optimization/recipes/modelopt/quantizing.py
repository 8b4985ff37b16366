"""Quantize by ModelOpt: INT4 AWQ, INT8 SmoothQuant and FP8, in its own layout of Hugging Face files."""

from collections.abc import Mapping
from typing import Any

from optimization.recipes.order import MakingOrder, RecipeRefusal, Report, device
from optimization.recipes.texts import token_lists

GROUP = 128
CONFIGS: Mapping[str, str] = {
    "int4-awq": "INT4_AWQ_CFG",
    "int8-smoothquant": "INT8_SMOOTHQUANT_CFG",
    "fp8": "FP8_DEFAULT_CFG",
}


def make(order: MakingOrder, report: Report) -> dict[str, Any]:
    import modelopt.torch.quantization as mtq
    import torch
    from modelopt.torch.export import export_hf_checkpoint
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.manual_seed(order.seed)
    scheme = order.parameters["scheme"]
    if "quantization_config" in order.config():
        raise RecipeRefusal("The model is quantized already: choose its parent, which is not.")
    tokenizer = AutoTokenizer.from_pretrained(order.source, local_files_only=True, trust_remote_code=False)
    model: Any = (
        AutoModelForCausalLM.from_pretrained(
            order.source, local_files_only=True, trust_remote_code=False, use_safetensors=True
        )
        .eval()
        .to(device())
    )
    widths = {one.in_features for one in model.modules() if isinstance(one, torch.nn.Linear)}
    if scheme == "int4-awq" and (wrong := sorted(width for width in widths if width % GROUP)):
        raise RecipeRefusal(f"Groups of {GROUP} do not divide layers of {', '.join(map(str, wrong))} inputs.")
    texts = [torch.tensor([ids], device=device()) for ids in token_lists(order, tokenizer)]

    def calibrate(wrapped: Any) -> None:
        with torch.inference_mode():
            for done, ids in enumerate(texts, 1):
                wrapped(input_ids=ids)
                report("calibrating", done, len(texts))

    mtq.quantize(model, getattr(mtq, CONFIGS[scheme]), calibrate)
    order.keep_companions()
    export_hf_checkpoint(model, export_dir=str(order.output))
    return {"calibration_texts": len(texts)}
