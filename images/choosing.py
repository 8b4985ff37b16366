"""The choice of the best image for a model, with reasons against each of the others. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from common.sentences import clauses, joined, listed
from images import rules, versions
from images.rules import Image, ImageRefusal, ImageRequirements


@dataclass(frozen=True, slots=True)
class JudgedImage:
    image: Image
    refusals: tuple[ImageRefusal, ...]
    """Empty: it fits."""
    doubts: tuple[str, ...]
    why: str = ""
    """One sentence: why it was chosen, or why not."""

    @property
    def fits(self) -> bool:
        return not self.refusals


@dataclass(frozen=True, slots=True)
class ChosenImage:
    wish: ImageRequirements
    best: JudgedImage | None
    others: tuple[JudgedImage, ...]
    """Those that fit first, from the better to the worse."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """Why each of the others is not it, with its name."""
        return tuple(f"{one.image.name}: {one.why}" for one in self.others)


def choose(images: Iterable[Image], wish: ImageRequirements) -> ChosenImage:
    """The order does not matter, and one image more makes no choice worse: each is judged by itself."""
    judged = sorted((judge(image, wish) for image in images), key=lambda one: _place(one, wish), reverse=True)
    best = judged[0] if judged and judged[0].fits else None
    others = [one for one in judged if one is not best]
    fitting = sum(one.fits for one in judged)
    return ChosenImage(
        wish=wish,
        best=replace(best, why=_praise(best, wish, of=fitting)) if best else None,
        others=tuple(replace(one, why=_why_not(one, best, wish)) for one in others),
    )


def judge(image: Image, wish: ImageRequirements) -> JudgedImage:
    return JudgedImage(image, tuple(rules.refusals(image, wish)), tuple(rules.doubts(image, wish)))


def merits(judged: JudgedImage, wish: ImageRequirements) -> tuple[object, ...]:
    """Return the merits of a fitting image, the most important first, to be compared place by place."""
    image = judged.image
    return (
        _tried(image, wish),
        -len(judged.doubts),
        image.is_own,
        versions.numbers(image.engine_version),
        versions.numbers(image.cuda_version),
        image.key,
    )


_BETTER_BY = (
    gettext_noop("fits, but %(best)s has been tried on this GPU and works."),
    gettext_noop("fits, but %(best)s leaves fewer questions open."),
    gettext_noop("fits, but %(best)s is your team's own."),
    gettext_noop("fits, but %(best)s has the newer engine, %(engine_version)s."),
    gettext_noop("fits, but %(best)s has the newer CUDA, %(cuda_version)s."),
    gettext_noop("fits, but %(best)s was added later."),
)
"""In the order of `merits`."""


def _place(judged: JudgedImage, wish: ImageRequirements) -> tuple[object, ...]:
    # Of those that do not fit, first the one with the fewest obstacles, then as the others.
    return (judged.fits, -len(judged.refusals), *merits(judged, wish))


def _tried(image: Image, wish: ImageRequirements) -> int:
    """2: works on every kind of GPU with this architecture; 1: with some other that the trial left open."""
    found = [rules.trial_on(image, gpu, wish.model.architecture) for gpu in wish.gpus or ()]
    if not found or not all(trial is not None and trial.works for trial in found):
        return 0
    return 2 if all(trial is not None and trial.architecture for trial in found) else 1


def _praise(best: JudgedImage, wish: ImageRequirements, *, of: int) -> str:
    image = best.image
    engine = " ".join(word for word in (image.engine, image.engine_version) if word)
    where = _("a worker without a GPU") if wish.gpus == () else listed(map(_seen, wish.gpus or ()))
    if where and of == 1:
        fits = _("%(what)s is the only one that fits %(where)s.")
    elif where:
        fits = _("%(what)s is the best of %(of)s that fit %(where)s.")
    elif of == 1:
        fits = _("%(what)s is the only one that fits.")
    else:
        fits = _("%(what)s is the best of %(of)s that fit.")
    what = engine
    if image.cuda_version:
        words = {"engine": engine, "cuda_version": image.cuda_version}
        what = _("%(engine)s with CUDA %(cuda_version)s") % words
    tried = _("It has been tried there.") if _tried(image, wish) else ""
    return joined((fits % {"what": what, "of": of, "where": where}, tried, open_questions(best)))


def open_questions(judged: JudgedImage) -> str:
    """Describe open questions in one sentence; empty without any."""
    return _("Open: %(doubts)s") % {"doubts": clauses(judged.doubts)} if judged.doubts else ""


def _seen(gpu: rules.GpuDescription) -> str:
    facts = []
    if gpu.capability:
        facts.append(_("compute capability %(capability)s") % {"capability": gpu.capability})
    if gpu.driver:
        facts.append(_("driver %(driver)s") % {"driver": gpu.driver})
    return _("%(gpu)s (%(facts)s)") % {"gpu": gpu, "facts": listed(facts)} if facts else gpu.name


def _why_not(judged: JudgedImage, best: JudgedImage | None, wish: ImageRequirements) -> str:
    if judged.refusals:
        return clauses(one.sentence for one in judged.refusals)
    assert best is not None  # noqa: S101  (one that fits is in its place otherwise)
    pairs = zip(merits(best, wish), merits(judged, wish), _BETTER_BY, strict=True)
    better = next(words for mine, theirs, words in pairs if mine != theirs)
    image = best.image
    return _(better) % {
        "best": image.name,
        "engine_version": image.engine_version,
        "cuda_version": image.cuda_version,
    }
