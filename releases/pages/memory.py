"""How much GPU memory one worker of a service needs, and whether the cluster's GPUs have it.

Weights as they are stored, plus the keys and values of every slot at the full context: what an engine that
pages its cache (section 3 of https://arxiv.org/abs/2309.06180) needs when all slots are full. Activations and
the CUDA context come on top: of a GPU's memory the share `USABLE` is counted on, which is vLLM's default.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from clusters.engine_settings import split
from clusters.images import gpus_of
from clusters.models import Cluster
from common.pages import formats
from models_registry.models import Version
from serving.engines.registry import ENGINES

USABLE = 0.9


@dataclass(frozen=True, slots=True)
class MemoryRequirement:
    """Memory that one worker needs; None where the version's files do not tell."""

    weights_bytes: int | None
    cache_bytes_per_1k_tokens: int | None
    slots: int
    context: int | None
    """Tokens of one request."""

    @property
    def cache_bytes(self) -> int | None:
        if self.cache_bytes_per_1k_tokens is None or self.context is None:
            return None
        return self.slots * self.context * self.cache_bytes_per_1k_tokens // 1_000

    @property
    def total(self) -> int | None:
        if self.weights_bytes is None or self.cache_bytes is None:
            return None
        return self.weights_bytes + self.cache_bytes


@dataclass(frozen=True, slots=True)
class WorkerMemory:
    """Memory that one worker gets: `gpus` of a kind."""

    gpu: str
    memory_bytes: int
    gpus: int
    share: float = USABLE

    @property
    def usable_bytes(self) -> int:
        return int(self.memory_bytes * self.gpus * self.share)


@dataclass(frozen=True, slots=True)
class MemoryAdvice:
    tone: str
    """good, warn, bad or quiet."""
    title: str
    lines: tuple[str, ...]


def advice_for(
    version: Version,
    cluster: Cluster,
    *,
    engine: str,
    device: str,
    slots: int,
    gpus_per_worker: int,
    settings: Mapping[str, Any],
) -> MemoryAdvice:
    """Advise what a service with these settings would need of each worker's GPUs, as last seen."""
    memory = (version.facts or {}).get("memory") or {}
    known, _rest = split(engine, settings)
    context = known.get(ENGINES[engine].context_setting) or version.context_length
    need = MemoryRequirement(
        weights_bytes=memory.get("weights_bytes"),
        cache_bytes_per_1k_tokens=memory.get("kv_cache_bytes_per_1k_tokens"),
        slots=max(1, slots),
        context=context if isinstance(context, int) else None,
    )
    share = known.get(ENGINES[engine].memory_share_setting)
    rooms = [
        WorkerMemory(
            gpu.name, gpu.memory_bytes, max(1, gpus_per_worker), share if isinstance(share, float) else USABLE
        )
        for gpu in (() if device == "cpu" else gpus_of(cluster) or ())
    ]
    return advise(need, rooms)


def advise(need: MemoryRequirement, rooms: Sequence[WorkerMemory]) -> MemoryAdvice:
    """Say in one line whether it fits, then the figures behind it and what to change."""
    lines = _figures(need)
    rooms = [room for room in rooms if room.memory_bytes]
    if need.total is None:
        return MemoryAdvice("quiet", _("The memory of a worker is not known in full."), tuple(lines))
    if not rooms:
        title = _("A worker needs %(total)s of memory.") % {"total": formats.memory_size(need.total)}
        return MemoryAdvice("quiet", title, tuple(lines))
    lacking = [room for room in rooms if need.total > room.usable_bytes]
    for room in rooms:
        lines.append(_told(room))
    if not lacking:
        return MemoryAdvice("good", _("It fits the GPUs of this cluster."), tuple(lines))
    lines += [way for room in lacking for way in _ways_out(need, room)]
    if len(lacking) < len(rooms):
        return MemoryAdvice(
            "warn", _("It fits only some of the GPUs of this cluster."), tuple(dict.fromkeys(lines))
        )
    if need.weights_bytes is not None and all(need.weights_bytes <= room.usable_bytes for room in lacking):
        title = _("The weights fit, but not all slots at full context.")
        return MemoryAdvice("warn", title, tuple(dict.fromkeys(lines)))
    return MemoryAdvice("bad", _("It does not fit the GPUs of this cluster."), tuple(dict.fromkeys(lines)))


def _figures(need: MemoryRequirement) -> list[str]:
    lines = []
    if need.weights_bytes is not None:
        lines.append(_("Weights: %(size)s.") % {"size": formats.memory_size(need.weights_bytes)})
    if need.cache_bytes is not None:
        told = {
            "size": formats.memory_size(need.cache_bytes),
            "slots": formats.count(need.slots),
            "context": formats.count(need.context or 0),
        }
        lines.append(_("KV cache: %(size)s for %(slots)s slots of %(context)s tokens.") % told)
    return lines


def _told(room: WorkerMemory) -> str:
    told = {
        "gpus": formats.count(room.gpus),
        "gpu": room.gpu,
        "size": formats.memory_size(room.usable_bytes),
        "share": f"{room.share:.0%}",
    }
    return (
        ngettext(
            "%(gpus)s GPU of %(gpu)s: %(size)s usable (%(share)s).",
            "%(gpus)s GPUs of %(gpu)s: %(size)s usable (%(share)s).",
            room.gpus,
        )
        % told
    )


def _ways_out(need: MemoryRequirement, room: WorkerMemory) -> list[str]:
    ways = []
    per_gpu = room.usable_bytes // max(1, room.gpus)
    if per_gpu and need.total is not None:
        gpus = -(-need.total // per_gpu)
        ways.append(_("Use %(gpus)d GPUs per worker.") % {"gpus": gpus})
    left = room.usable_bytes - (need.weights_bytes or 0)
    per_slot = (need.cache_bytes or 0) // need.slots
    if left > 0 and per_slot:
        if slots := left // per_slot:
            ways.append(_("Or take %(slots)d slots.") % {"slots": slots})
        tokens = left * 1_000 // (need.slots * (need.cache_bytes_per_1k_tokens or 1))
        if tokens >= 256:
            ways.append(_("Or limit the context to %(tokens)d tokens.") % {"tokens": tokens // 256 * 256})
    return ways
