"""Round the network of a pipeline to 8 bits, weights and activations, by scales that ModelOpt measures."""

import json
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from optimization.recipes.diffusion.pipelines import (
    NETWORK,
    Denoiser,
    NoiseSchedule,
    conditions_of,
    distilled_steps,
    load,
    save,
    shape_of,
)
from optimization.recipes.order import MakingOrder, RecipeRefusal, Report, device
from serving.runtime.rounded_networks import METHOD, MOST, is_rounded

TOGETHER = 8


def make(order: MakingOrder, report: Report) -> dict[str, Any]:
    import modelopt.torch.quantization as mtq

    torch.manual_seed(order.seed)
    if is_rounded(order.source / NETWORK):
        raise RecipeRefusal("Its network is rounded already: choose its parent, which is not.")
    pipeline = load(order.source)
    network, shape = pipeline.unet.eval(), shape_of(pipeline)
    prompts = [] if conditions_of(pipeline, []) is None else list(order.texts())
    conditions = conditions_of(pipeline, prompts)
    schedule = NoiseSchedule.of(pipeline.scheduler, device())
    count, steps = int(order.parameters["pictures"]), int(order.parameters["steps"])
    steps = distilled_steps(order.source) or steps
    draw = torch.Generator().manual_seed(order.seed)
    plain = {name: one.detach().clone() for name, one in network.state_dict().items()}

    def measure(wrapped: Any) -> None:
        denoiser = Denoiser(wrapped, schedule, conditions)
        for begin in range(0, count, TOGETHER):
            some = min(TOGETHER, count - begin)
            noise = torch.randn(some, *shape, generator=draw).to(device())
            wanted = torch.randint(max(len(prompts), 1), (some,), generator=draw).to(device())
            denoiser.drawn(noise, steps, wanted)
            report("measuring", begin + some, count)

    save(order, pipeline, steps=distilled_steps(order.source))
    measured = mtq.quantize(network, mtq.INT8_DEFAULT_CFG, measure)
    tensors, layers, worst = dict(plain), 0, 0.0
    for name, layer in measured.named_modules():
        weights = getattr(layer, "weight_quantizer", None)
        if weights is None or not (weights.is_enabled and layer.input_quantizer.is_enabled):
            continue
        weight = plain[f"{name}.weight"].float().cpu()
        codes, scale = _codes(weight, weights.amax.float().flatten().cpu())
        most = float(layer.input_quantizer.amax)
        tensors |= {
            f"{name}.weight": codes,
            f"{name}.weight_scale": scale,
            f"{name}.input_scale": torch.tensor(max(most, 1e-12) / MOST),
        }
        apart = codes.float() * scale.view(-1, *[1] * (weight.dim() - 1)) - weight
        worst, layers = max(worst, float(apart.norm() / weight.norm().clamp(min=1e-12))), layers + 1
    if not layers:
        raise RecipeRefusal("ModelOpt found no layer in its network that it could round.")
    place = order.output / NETWORK
    for path in place.glob("*.safetensors*"):
        path.unlink()
    save_file(
        {name: one.cpu().contiguous() for name, one in tensors.items()},
        place / "diffusion_pytorch_model.safetensors",
        metadata={"format": "pt"},
    )
    config = json.loads((place / "config.json").read_bytes())
    described = {"quant_method": METHOD, "quant_algo": "W8A8", "producer": {"name": METHOD}}
    (place / "config.json").write_text(
        json.dumps({**config, "quantization_config": described}, indent=2) + "\n"
    )
    return {"layers": layers, "worst_relative_error": round(worst, 6)}


def _codes(weight: Tensor, most: Tensor) -> tuple[Tensor, Tensor]:
    scale = most.clamp(min=1e-12) / MOST
    shaped = scale.view(-1, *[1] * (weight.dim() - 1))
    return (weight / shaped).round().clamp(-MOST - 1, MOST).to(torch.int8), scale
