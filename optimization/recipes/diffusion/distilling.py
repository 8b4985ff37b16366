"""Progressive step distillation: a student takes one step where its teacher takes two, again and again.

Salimans and Ho 2022 (arXiv:2202.00512), algorithm 2: steps of DDIM, a student that predicts v. The parent
draws the pictures that the students learn from, so that no training set is needed.
"""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

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
from serving.runtime.rounded_networks import is_rounded

DRAWN_TOGETHER = 256
LEAST_PROMPTS = 8
EMA = 0.99


def make(order: MakingOrder, report: Report) -> dict[str, Any]:
    steps, teacher_steps = int(order.parameters["steps"]), int(order.parameters["teacher_steps"])
    if (
        teacher_steps <= steps
        or (teacher_steps // steps) & (teacher_steps // steps - 1)
        or teacher_steps % steps
    ):
        raise RecipeRefusal(
            f"{teacher_steps} steps halved again and again never are {steps}: give {steps * 2}, {steps * 4}, "
            "... as teacher_steps."
        )
    if (trained := distilled_steps(order.source)) and trained != teacher_steps:
        raise RecipeRefusal(f"The parent was distilled to {trained} steps: give teacher_steps={trained}.")
    if is_rounded(order.source / NETWORK):
        raise RecipeRefusal("Its network is rounded: distil its parent first, then round the result.")
    pipeline = load(order.source)
    takes_prompts = getattr(pipeline, "text_encoder", None) is not None
    prompts = list(order.texts()) if takes_prompts else []
    if takes_prompts and len(prompts) < LEAST_PROMPTS:
        raise RecipeRefusal(
            f"Give {LEAST_PROMPTS} prompts or more as the calibration set; it has {len(prompts)}."
        )
    teacher = Denoiser(
        pipeline.unet.eval(),
        NoiseSchedule.of(pipeline.scheduler, device()),
        conditions_of(pipeline, prompts),
        float(order.parameters["guidance"]) if takes_prompts else 1.0,
    )
    student, losses = distilled(
        teacher,
        shape_of(pipeline),
        steps=steps,
        teacher_steps=teacher_steps,
        training_steps=int(order.parameters["training_steps"]),
        pictures=int(order.parameters["pictures"]),
        batch=int(order.parameters["batch"]),
        rate=float(order.parameters["rate"]),
        seed=order.seed,
        report=report,
    )
    pipeline.unet = student.network
    pipeline.scheduler = type(pipeline.scheduler).from_config(
        pipeline.scheduler.config, prediction_type="v_prediction", clip_sample=False
    )
    save(order, pipeline, steps=steps)
    return {"steps": steps, "steps_before": teacher_steps, "loss": [round(one, 5) for one in losses]}


def distilled(
    teacher: Denoiser,
    shape: tuple[int, int, int],
    *,
    steps: int,
    teacher_steps: int,
    training_steps: int,
    pictures: int,
    batch: int,
    seed: int,
    rate: float,
    report: Report,
) -> tuple[Denoiser, list[float]]:
    """Return a student of so many steps, and the loss at the end of each halving."""
    draw = torch.Generator().manual_seed(seed)
    where = teacher.schedule.signal.device
    kinds = 1 if teacher.conditions is None else len(teacher.conditions) - 1
    wanted = torch.randint(kinds, (pictures,), generator=draw).to(where)
    parts = []
    for begin in range(0, pictures, DRAWN_TOGETHER):
        some = wanted[begin : begin + DRAWN_TOGETHER]
        noise = torch.randn(len(some), *shape, generator=draw).to(where)
        parts.append(teacher.drawn(noise, teacher_steps, some))
        report("drawing", min(begin + DRAWN_TOGETHER, pictures), pictures)
    data = torch.cat(parts).clone()
    losses: list[float] = []
    student = teacher
    total = training_steps * ((teacher_steps // steps).bit_length() - 1)

    def trained(step: int) -> None:
        report("distilling", len(losses) * training_steps + step, total)

    while teacher_steps > steps:
        teacher_steps //= 2
        student, loss = _halved(
            teacher, data, wanted, teacher_steps, training_steps, batch, draw, rate, trained
        )
        losses.append(loss)
        teacher = student
    return student, losses


def _halved(
    teacher: Denoiser, data: Tensor, wanted: Tensor, steps: int, training_steps: int, batch: int,
    draw: torch.Generator, rate: float, trained: Callable[[int], None],
) -> tuple[Denoiser, float]:  # fmt: skip
    """Train a copy of the teacher to reach in one of `steps` what the teacher reaches in two."""
    where = data.device
    schedule = replace(teacher.schedule, prediction="v_prediction", clips=False)
    student = Denoiser(copy.deepcopy(teacher.network).train(), schedule, teacher.conditions)
    averaged = copy.deepcopy(teacher.network).eval()
    coarse, fine = schedule.times(steps), [*schedule.times(2 * steps), -1]
    times = torch.tensor([fine[2 * place : 2 * place + 3] for place in range(len(coarse))], device=where)
    weights, mean_weights = list(student.network.parameters()), list(averaged.parameters())
    optimizer = torch.optim.AdamW(student.network.parameters(), lr=rate, weight_decay=0.0)
    mean = torch.zeros((), device=where)
    for step in range(1, training_steps + 1):
        chosen = torch.randint(len(data), (batch,), generator=draw).to(where)
        now, middle, then = times[torch.randint(steps, (batch,), generator=draw).to(where)].unbind(1)
        noise = torch.randn(batch, *data.shape[1:], generator=draw).to(where)
        signal, strength = schedule.at(now)
        noisy, prompts = signal * data[chosen] + strength * noise, wanted[chosen]
        with torch.no_grad():
            half = teacher.step(noisy, now, middle, prompts)
            whole = teacher.step(half, middle, then, prompts)
        signal_then, strength_then = schedule.at(then)
        # The picture from which one step leads where two of the teacher's have led.
        share = strength_then / strength
        target = (whole - share * noisy) / (signal_then - share * signal)
        velocity = (signal * noisy - target) / strength
        loss = nn.functional.mse_loss(student.output(noisy, now, prompts), velocity)
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(student.network.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = rate * (1 - (step - 1) / training_steps)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            torch._foreach_lerp_(mean_weights, weights, 1 - min(EMA, step / (step + 10)))
        mean.lerp_(loss.detach(), 1 / min(step, 20))
        trained(step)
    if not mean.isfinite():
        raise RecipeRefusal(f"The training to {steps} steps came to values that are no numbers.")
    return replace(student, network=averaged), float(mean)
