"""Named reads of the catalogue of images."""

from django.db.models import Prefetch, Q, QuerySet
from django.utils.translation import gettext as _

from accounts.models import Team
from common import words
from common.actor import Actor
from common.sentences import day
from images import rules
from images.choosing import ChosenImage, choose
from images.errors import UnknownImage
from images.models import ImagePullFailure, ImageTrial, RuntimeImage
from images.rules import ImageRequirements, PullFailure, TrialFacts
from images.states import TrialOutcome
from models_registry.models import Version


def images(actor: Actor) -> QuerySet[RuntimeImage]:
    """Images of the actor's teams and shared ones, with the failed pulls that the actor may see."""
    failures = Prefetch("pull_failures", ImagePullFailure.objects.for_actor(actor))
    found = RuntimeImage.objects.for_actor(actor).select_related("team", "replaced_by")
    return found.prefetch_related(failures)


def mentioning(found: QuerySet[RuntimeImage], q: str) -> QuerySet[RuntimeImage]:
    """Return images in whose name, engine, versions, repository, digest or description every word occurs."""
    columns = ("name", "engine", "engine_version", "cuda_version", "repository", "digest", "description")
    return words.mentioning(found, q, columns)


def image_named(actor: Actor, name: str) -> RuntimeImage:
    """Raises UnknownImage."""
    found = images(actor).filter(name=name).first()
    if found is None:
        raise UnknownImage(_("There is no image '%(name)s', or you may not see it.") % {"name": name[:95]})
    return found


def usable_by(team: Team) -> QuerySet[RuntimeImage]:
    """Return the images that releases of the team may use: its own and those of the installation."""
    found = RuntimeImage.objects.filter(Q(team=team) | Q(team=None)).select_related("replaced_by")
    return found.prefetch_related("pull_failures")


def chosen(found: QuerySet[RuntimeImage], wish: ImageRequirements) -> ChosenImage:
    """The best of these images of the wished engine. Three queries."""
    rows = found.filter(engine=wish.engine).prefetch_related(
        Prefetch("trials", ImageTrial.objects.order_by("-at", "-pk"))
    )
    return choose(map(facts_of, rows), wish)


def works_on(row: RuntimeImage, *, gpu: str, architecture: str) -> bool:
    """Return whether the last trial on a GPU and an architecture says that it works there."""
    trial = rules.trial_on(facts_of(row), rules.GpuDescription(gpu), architecture)
    return trial is not None and trial.works


def facts_of(row: RuntimeImage) -> rules.Image:
    return rules.Image(
        key=row.pk,
        name=row.name,
        engine=row.engine,
        engine_version=row.engine_version,
        cuda_version=row.cuda_version,
        least_driver=row.least_driver,
        code=tuple(row.code),
        formats=tuple(row.formats),
        runs_on_cpu=row.runs_on_cpu,
        is_own=row.team_id is not None,
        deprecation=deprecation(row),
        trials=tuple(
            TrialFacts(
                one.gpu, one.architecture, one.outcome == TrialOutcome.WORKS, one.words, one.by, one.at.date()
            )
            for one in row.trials.all()
        ),
        pull_failures=tuple(
            PullFailure(one.cluster, one.reason, one.since.date()) for one in row.pull_failures.all()
        ),
    )


def deprecation(row: RuntimeImage) -> str:
    """`is deprecated since 3 March 2026, use vllm-0.10`; empty while it is not."""
    if row.deprecated_at is None:
        return ""
    since = {"day": day(row.deprecated_at)}
    if row.replaced_by is None:
        return _("is deprecated since %(day)s") % since
    return _("is deprecated since %(day)s, use %(replaced_by)s") % {
        **since,
        "replaced_by": row.replaced_by.name,
    }


def model_of(version: Version | None) -> rules.ModelDescription:
    """Return the registry's facts of the version's weights."""
    if version is None:
        return rules.ModelDescription()
    facts = version.facts or {}
    return rules.ModelDescription(
        format=facts.get("format") or "",
        architecture=version.architecture,
        dtype=version.dtype,
        quantization=version.quantization,
        weights_bytes=(facts.get("memory") or {}).get("weights_bytes"),
    )
