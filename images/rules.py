"""Rules that keep an image from running a model on a GPU, and where each comes from."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from common.sentences import day
from images import cuda, gpus, versions
from serving.engines.registry import ENGINES


class RefusalSubject(StrEnum):
    """The subject of a refusal."""

    ENGINE = "engine"
    ENGINE_VERSION = "engine_version"
    DEPRECATED = "deprecated"
    PULL = "pull"
    GPU = "gpu"
    CODE = "code"
    DRIVER = "driver"
    FORMAT = "format"
    QUANTIZATION = "quantization"
    TRIED = "tried"


@dataclass(frozen=True, slots=True)
class GpuDescription:
    """A GPU as `nvidia-smi` names it; empty fields are not known. `memory_bytes` is 0 when not known."""

    name: str
    driver: str = ""
    memory_bytes: int = 0

    @property
    def capability(self) -> str:
        return gpus.compute_capability(self.name)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """Facts of a version's files that the registry read; empty fields are not known."""

    format: str = ""
    architecture: str = ""
    dtype: str = ""
    quantization: str = ""
    weights_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ImageRequirements:
    engine: str
    engine_version: str = ""
    """As `versions.answers` reads it."""
    gpus: tuple[GpuDescription, ...] | None = None
    """One of each kind on which a worker may land; empty: there is none; None: not known."""
    gpus_per_worker: int = 1
    model: ModelDescription = ModelDescription()
    cluster: str = ""
    """That is to pull it; empty: any."""


@dataclass(frozen=True, slots=True)
class PullFailure:
    """A cluster could not pull it, and has not since."""

    cluster: str
    reason: str
    on: date


@dataclass(frozen=True, slots=True)
class TrialFacts:
    """Somebody ran it: what came of it, newest first in `Image.trials`."""

    gpu: str
    architecture: str
    works: bool
    words: str
    by: str
    on: date


@dataclass(frozen=True, slots=True)
class Image:
    key: int
    name: str
    engine: str
    engine_version: str = ""
    cuda_version: str = ""
    """Empty: it brings no CUDA."""
    least_driver: str = ""
    """What the image itself demands; empty: what its CUDA demands."""
    code: tuple[str, ...] = ()
    """As `cuda.code_of` reads it; empty: not known."""
    formats: tuple[str, ...] = ()
    runs_on_cpu: bool = False
    is_own: bool = False
    """Of the team that asks, rather than of the whole installation."""
    deprecation: str = ""
    """Since when and by what it is replaced, in words; empty: it is current."""
    trials: tuple[TrialFacts, ...] = ()
    pull_failures: tuple[PullFailure, ...] = ()


@dataclass(frozen=True, slots=True)
class ImageRefusal:
    fact: RefusalSubject
    sentence: str


FP8_LEAST = "8.9"
"""docs.vllm.ai, "FP8 W8A8": FP8 computation needs compute capability 8.9 (Ada Lovelace and later)."""
BF16_LEAST = "8.0"
"""CUDA Programming Guide, "Compute Capabilities": bfloat16 in tensor cores from 8.0 on; older GPUs imitate it
(transformers) or compute in float16 instead (vLLM)."""


def refusals(image: Image, wish: ImageRequirements) -> list[ImageRefusal]:
    """Every reason why it cannot be; what is not known refuses nothing."""
    if image.engine != wish.engine:
        return [
            ImageRefusal(
                RefusalSubject.ENGINE,
                _("is an image of %(engine)s, not of %(engine_2)s")
                % {"engine": image.engine, "engine_2": wish.engine},
            )
        ]
    found = [*_of_engine_version(image, wish), *_of_format(image, wish.model)]
    if image.deprecation:
        found.append(ImageRefusal(RefusalSubject.DEPRECATED, image.deprecation))
    found += [
        ImageRefusal(RefusalSubject.PULL, _failed_pull(one))
        for one in image.pull_failures
        if wish.cluster in ("", one.cluster)
    ]
    if wish.gpus == () and not image.runs_on_cpu:
        found.append(ImageRefusal(RefusalSubject.GPU, _("needs a GPU; there is none")))
    for gpu in wish.gpus or ():
        found += _on(image, wish, gpu)
    return list(dict.fromkeys(found))


def doubts(image: Image, wish: ImageRequirements) -> list[str]:
    """Return what could not be checked, or will be slower or tighter than it might."""
    found: list[str] = []
    if wish.gpus is None:
        found.append(_("the GPUs are not known"))
    if wish.engine_version and not versions.numbers(image.engine_version):
        found.append(_("its engine's version cannot be compared"))
    if wish.model.format and not image.formats:
        found.append(_("which formats it loads is not known"))
    if wish.cluster:
        found += [_failed_pull(one) for one in image.pull_failures if one.cluster != wish.cluster]
    for gpu in wish.gpus or ():
        found += _doubts_on(image, wish, gpu)
    return list(dict.fromkeys(found))


def trial_on(image: Image, gpu: GpuDescription, architecture: str) -> TrialFacts | None:
    """The last one on this kind of GPU with models of this architecture."""
    for trial in image.trials:
        if gpus.is_same(trial.gpu, gpu.name) and trial.architecture.lower() in ("", architecture.lower()):
            return trial
    return None


def way_on(image: Image, gpu: GpuDescription) -> str:
    """Return how its code runs there: `as it is`, or `compiled` by the driver; empty: not, or not known."""
    codes = [code for text in image.code if (code := cuda.code_of(text))]
    ways = {code.runs_on(gpu.capability) for code in codes} if gpu.capability else set()
    return "as it is" if "as it is" in ways else "compiled" if "compiled" in ways else ""


def _of_engine_version(image: Image, wish: ImageRequirements) -> Iterator[ImageRefusal]:
    if image.engine_version and not versions.answers(wish.engine_version, image.engine_version):
        yield ImageRefusal(
            RefusalSubject.ENGINE_VERSION,
            _("has %(engine)s %(engine_version)s; asked is %(engine_version_2)s")
            % {
                "engine": image.engine,
                "engine_version": image.engine_version,
                "engine_version_2": wish.engine_version,
            },
        )


def _of_format(image: Image, model: ModelDescription) -> Iterator[ImageRefusal]:
    if model.format and image.formats and model.format not in image.formats:
        yield ImageRefusal(
            RefusalSubject.FORMAT,
            _("loads %(image)s; the model is %(model)s")
            % {"image": _listed(image.formats), "model": model.format},
        )


def _on(image: Image, wish: ImageRequirements, gpu: GpuDescription) -> Iterator[ImageRefusal]:
    if not image.cuda_version:
        yield ImageRefusal(RefusalSubject.GPU, _("brings no CUDA; the worker gets %(gpu)s") % {"gpu": gpu})
        return
    if gpu.capability and image.code and not way_on(image, gpu):
        yield ImageRefusal(
            RefusalSubject.CODE,
            _("is compiled for %(code)s; %(gpu)s has compute capability %(capability)s")
            % {"code": _listed(image.code), "gpu": gpu, "capability": gpu.capability},
        )
    least, sentence = _driver_for(image, gpu)
    if least and gpu.driver and versions.at_least(gpu.driver, least) is False:
        yield ImageRefusal(
            RefusalSubject.DRIVER,
            _(sentence)
            % {"least": least, "cuda_version": image.cuda_version, "gpu": gpu, "driver": gpu.driver},
        )
    if (capability := _least_for(wish)) and gpu.capability and _less(gpu.capability, capability):
        yield ImageRefusal(
            RefusalSubject.QUANTIZATION,
            _(
                "%(engine)s needs compute capability %(capability)s for %(model)s; %(gpu)s has "
                "%(capability_2)s"
            )
            % {
                "engine": wish.engine,
                "capability": capability,
                "model": _quantization(wish.model),
                "gpu": gpu,
                "capability_2": gpu.capability,
            },
        )
    trial = trial_on(image, gpu, wish.model.architecture)
    if trial is not None and not trial.works:
        yield ImageRefusal(RefusalSubject.TRIED, _failed(trial))


def _doubts_on(image: Image, wish: ImageRequirements, gpu: GpuDescription) -> Iterator[str]:
    if not gpu.capability:
        yield _("the compute capability of %(gpu)s is not known") % {"gpu": gpu}
    elif not image.code:
        yield _("what it was compiled for is not known")
    elif way_on(image, gpu) == "compiled":
        yield _("its code is compiled for %(gpu)s by the driver, at every first start") % {"gpu": gpu}
    if not gpu.driver:
        yield _("the driver of %(gpu)s is not known") % {"gpu": gpu}
    elif not _driver_for(image, gpu)[0]:
        yield _("which driver CUDA %(cuda_version)s needs is not known") % {
            "cuda_version": image.cuda_version
        }
    model, fallback = wish.model, ENGINES[wish.engine].fp8_fallback
    if gpu.capability and _is_fp8(model) and fallback and _less(gpu.capability, FP8_LEAST):
        yield _(fallback[1]) % {"gpu": gpu, "engine": wish.engine}
    if gpu.capability and model.dtype.upper() == "BF16" and _less(gpu.capability, BF16_LEAST):
        yield _("%(gpu)s has no bfloat16, in which the weights are") % {"gpu": gpu}
    room = gpu.memory_bytes * max(1, wish.gpus_per_worker)
    if room and model.weights_bytes and model.weights_bytes > room:
        yield (
            _("the weights take %(needed)s GiB as stored; a worker has %(held)s GiB of GPU memory")
            % {"needed": f"{model.weights_bytes / 2**30:.0f}", "held": f"{room / 2**30:.0f}"}
        )


def _driver_for(image: Image, gpu: GpuDescription) -> tuple[str, str]:
    """Return the driver that the image demands, else that its CUDA demands; and the sentence for an older
    one.
    """
    if image.least_driver:
        return image.least_driver, gettext_noop("needs driver %(least)s or newer; %(gpu)s has %(driver)s")
    if way_on(image, gpu) == "compiled" and (least := cuda.compiling_driver(image.cuda_version)):
        return least, gettext_noop(
            "needs driver %(least)s or newer to compile the PTX of CUDA %(cuda_version)s; %(gpu)s has "
            "%(driver)s"
        )
    return cuda.least_driver(image.cuda_version), gettext_noop(
        "needs driver %(least)s or newer for CUDA %(cuda_version)s; %(gpu)s has %(driver)s"
    )


def _failed(trial: TrialFacts) -> str:
    if trial.architecture:
        said = _("failed on %(gpu)s with %(architecture)s, says %(by)s of %(day)s")
    else:
        said = _("failed on %(gpu)s, says %(by)s of %(day)s")
    told = said % {
        "gpu": trial.gpu,
        "architecture": trial.architecture,
        "by": trial.by,
        "day": day(trial.on),
    }
    return _("%(said)s: %(detail)s") % {"said": told, "detail": trial.words} if trial.words else told


def _failed_pull(failure: PullFailure) -> str:
    return _("could not be pulled by cluster %(cluster)s on %(day)s: %(reason)s") % {
        "cluster": failure.cluster,
        "day": day(failure.on),
        "reason": failure.reason.rstrip("."),
    }


def _least_for(wish: ImageRequirements) -> str:
    """The compute capability below which the engine does not run weights of this kind; empty: any."""
    method, engine = wish.model.quantization.lower(), ENGINES[wish.engine]
    if wish.model.format == "gguf":
        return ""  # Unpacked by the engine's own kernels, on any GPU that its code runs on.
    if named := engine.least_capabilities.get(method):
        return named
    if not _is_fp8(wish.model):
        return ""
    return engine.fp8_fallback[0] if engine.fp8_fallback else FP8_LEAST


def _is_fp8(model: ModelDescription) -> bool:
    return model.quantization.lower() == "fp8" or (not model.quantization and model.dtype.startswith("F8_"))


def _quantization(model: ModelDescription) -> str:
    return model.quantization.upper() if model.quantization else "FP8"


def _less(capability: str, least: str) -> bool:
    return versions.at_least(capability, least) is False


def _listed(words: tuple[str, ...]) -> str:
    return ", ".join(words)
