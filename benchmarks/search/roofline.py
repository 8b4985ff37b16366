"""A prior of what a configuration can do: the roofline of weights, KV cache and arithmetic. Pure.

It is off by some tens of percent, as every such model (docs/BENCHMARKS.md): it orders configurations, and
nothing is concluded from it.
"""

from dataclasses import dataclass

EFFICIENCY_MEMORY, EFFICIENCY_COMPUTE = 0.7, 0.5
"""Shares of the peak that serving engines reach in practice."""


@dataclass(frozen=True, slots=True)
class DevicePeak:
    """Peaks of one GPU: memory bandwidth, dense 16-bit arithmetic, memory."""

    bytes_per_second: float
    flops: float
    memory_bytes: float


PEAKS = {
    "H200": DevicePeak(4.8e12, 989e12, 141e9),
    "H100": DevicePeak(3.35e12, 989e12, 80e9),
    "A100": DevicePeak(2.0e12, 312e12, 80e9),
    "L40S": DevicePeak(864e9, 362e12, 48e9),
    "L4": DevicePeak(300e9, 121e12, 24e9),
    "A10": DevicePeak(600e9, 125e12, 24e9),
    "T4": DevicePeak(320e9, 65e12, 16e9),
}
"""By a part of the name, the longest that occurs; from NVIDIA's data sheets (SXM where there are two)."""
CPU = DevicePeak(40e9, 1e12, 64e9)


@dataclass(frozen=True, slots=True)
class ServedModel:
    weights_bytes: float
    parameters: float
    kv_bytes_per_token: float


@dataclass(frozen=True, slots=True)
class ServedLoad:
    input_tokens: float
    output_tokens: float
    ttft_seconds: float | None
    tpot_seconds: float | None


def peak_of(gpu: str) -> DevicePeak:
    """Return the peak of a GPU by its name; a CPU's where it is not known."""
    known = sorted((name for name in PEAKS if name.lower() in gpu.lower()), key=len)
    return PEAKS[known[-1]] if known else CPU


def requests_per_second(
    model: ServedModel, load: ServedLoad, peak: DevicePeak, *, gpus: int = 1, slots: int = 8
) -> float:
    """The highest rate within the targets; 0: the model does not fit, or no batch keeps TPOT.

    One step reads the weights once and the KV cache of each request; each token of a prompt or an answer
    computes 2 x parameters. The batch is as large as slots, memory and TPOT allow.
    """
    bandwidth = peak.bytes_per_second * gpus * EFFICIENCY_MEMORY
    flops = peak.flops * gpus * EFFICIENCY_COMPUTE
    context = load.input_tokens + load.output_tokens
    cache = model.kv_bytes_per_token * context
    room = 0.9 * peak.memory_bytes * gpus - model.weights_bytes
    if room <= 0:
        return 0.0
    most = min(float(slots), room / cache if cache else float(slots))
    prefill = 2 * model.parameters * load.input_tokens / flops
    if most < 1 or (load.ttft_seconds is not None and prefill > load.ttft_seconds):
        return 0.0

    def step(batch: float) -> float:
        reads = (model.weights_bytes + batch * cache) / bandwidth
        return max(reads, 2 * model.parameters * batch / flops)

    batch = most
    if load.tpot_seconds is not None:
        while batch >= 1 and step(batch) > load.tpot_seconds:
            batch *= 0.8
        if batch < 1:
            return 0.0
    # A request holds its place for its steps; its prompt takes the device from all others.
    return 1 / (load.output_tokens * step(batch) / batch + prefill)
