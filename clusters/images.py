"""The image that the workers of a deployment run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from accounts.models import Team
from clusters.backends.kinds import abilities_of
from clusters.errors import NoImageFits
from clusters.models import Cluster, Deployment, Gpu, Node
from clusters.states import GpuState, MachineGroup, NodeState
from common.sentences import clauses, joined
from images import rules
from images import selectors as catalogue
from images.choosing import ChosenImage, JudgedImage, judge, open_questions
from images.models import RuntimeImage
from images.rules import ImageRequirements, RefusalSubject
from models_registry.models import Version

SHOWN = 5
"""Images of which a message says why they do not fit; the rest are counted."""


@dataclass(frozen=True, slots=True)
class PickedImage:
    image: RuntimeImage | None
    reference: str
    """With the digest, from the mirror of the cluster's region where there is one; empty without an image."""
    reason: str


def pick_image(
    wanted: Deployment, *, named: RuntimeImage | None = None, present: RuntimeImage | None = None
) -> PickedImage:
    """The one that is named, else the `present` one as long as it runs this, else the best of those that the
    team may use.

    Raises NoImageFits, with why each does not; where workers need no image, that is told in the reason.
    """
    wish = wish_of(wanted)
    if named is not None:
        return _named(wanted, named, wish)
    if present is not None and (kept := _kept(wanted, present, wish)):
        return kept
    choice = catalogue.chosen(catalogue.usable_by(wanted.team), wish)
    names = {
        "cluster": wanted.cluster.name,
        "engine": wanted.engine,
        "team": wanted.team.name,
        "version": wanted.version,
    }
    if choice.best is not None:
        image = RuntimeImage.objects.get(pk=choice.best.image.key)
        reasons = [f"{choice.best.image.name}: {choice.best.why}"]
        if present is not None:
            left = (one for one in choice.others if one.image.key == present.pk)
            reasons += [f"{one.image.name}: {one.why}" for one in left]
        return _picked(wanted, image, joined(reasons))
    if not abilities_of(wanted.cluster.kind).pulls_images:
        needless = _(
            "No image of the catalogue was picked on cluster %(cluster)s: workers are processes of its "
            "machine, which need none."
        )
        return PickedImage(None, "", joined((needless % names, _told(choice))))
    if not choice.others:
        raise NoImageFits(
            _(
                "The catalogue has no image of %(engine)s that team %(team)s may use on cluster "
                "%(cluster)s. Add one: slipway images add."
            )
            % names
        )
    sentence = _("No image runs %(version)s with %(engine)s on cluster %(cluster)s.") % names
    raise NoImageFits(joined((sentence, _told(choice))))


def foresee_image(
    *,
    cluster: Cluster,
    team: Team,
    version: Version,
    engine: str,
    device: str,
    resources: Mapping[str, Any],
    named: RuntimeImage | None = None,
    present: RuntimeImage | None = None,
) -> PickedImage:
    """Return the image that a deployment like this would get now. Raises NoImageFits."""
    wanted = Deployment(
        cluster=cluster, team=team, version=version, engine=engine, device=device, resources=dict(resources)
    )
    return pick_image(wanted, named=named, present=present)


def wish_of(wanted: Deployment) -> ImageRequirements:
    """Return the deployment's requirements, with the known GPUs of its cluster."""
    per_worker = wanted.resources.get("gpus_per_worker", 1)
    return ImageRequirements(
        engine=wanted.engine,
        gpus=() if wanted.device == "cpu" else gpus_of(wanted.cluster),
        gpus_per_worker=per_worker if isinstance(per_worker, int) else 1,
        model=catalogue.model_of(wanted.version),
        cluster=wanted.cluster.name,
    )


def gpus_of(cluster: Cluster) -> tuple[rules.GpuDescription, ...] | None:
    """Return one GPU of each kind on its machines for requests, as last seen; None: no machine was seen
    yet.
    """
    nodes = Node.objects.filter(cluster=cluster, group=MachineGroup.ONLINE).exclude(state=NodeState.GONE)
    present = Gpu.objects.filter(node__in=nodes).exclude(state=GpuState.GONE)
    found = present.values_list("name", "driver", "memory_bytes")
    kinds = tuple(rules.GpuDescription(*kind) for kind in sorted(set(found)))
    return kinds or (() if nodes.exists() else None)


def _named(wanted: Deployment, image: RuntimeImage, wish: ImageRequirements) -> PickedImage:
    if image.team_id not in (None, wanted.team_id):
        raise NoImageFits(
            _("Team %(team)s may not use image %(image)s: it belongs to another team.")
            % {"team": wanted.team.name, "image": image}
        )
    judged = judge(catalogue.facts_of(image), wish)
    # Whoever names one that is deprecated, or could not be pulled, means it.
    obstacles = [
        one.sentence
        for one in judged.refusals
        if one.fact not in (RefusalSubject.DEPRECATED, RefusalSubject.PULL)
    ]
    if obstacles:
        raise NoImageFits(
            _("Image %(image)s does not run %(version)s: it %(obstacles)s")
            % {"image": image, "version": wanted.version, "obstacles": clauses(obstacles)}
        )
    if deprecated := catalogue.deprecation(image):
        said = _("%(image)s was named, though it %(deprecated)s.")
    else:
        said = _("%(image)s was named.")
    named = said % {"image": image, "deprecated": deprecated}
    return _picked(wanted, image, joined((named, failed_pulls(judged), open_questions(judged))))


def _kept(wanted: Deployment, image: RuntimeImage, wish: ImageRequirements) -> PickedImage | None:
    """The service's present image is changed by nobody but people: by a wish for another one, or by
    deprecating it. None: it does not run this."""
    judged = judge(catalogue.facts_of(image), wish)
    if image.team_id not in (None, wanted.team_id) or any(
        one.fact != RefusalSubject.PULL for one in judged.refusals
    ):
        return None
    kept = _("%(image)s is kept: it is the image of the present workers.") % {"image": image}
    return _picked(wanted, image, joined((kept, failed_pulls(judged), open_questions(judged))))


def failed_pulls(judged: JudgedImage) -> str:
    """Describe failed pulls in one sentence; empty without any."""
    failed = [one.sentence for one in judged.refusals if one.fact == RefusalSubject.PULL]
    return _("But it %(failed)s") % {"failed": clauses(failed)} if failed else ""


def _picked(wanted: Deployment, image: RuntimeImage, reason: str) -> PickedImage:
    region = wanted.cluster.region
    told = [reason]
    if region in image.mirrors:
        told.append(_("From the mirror of region %(region)s.") % {"region": region})
    if not abilities_of(wanted.cluster.kind).pulls_images:
        processes = _("Cluster %(cluster)s runs workers as processes of its machine: it pulls nothing.")
        told.append(processes % {"cluster": wanted.cluster.name})
    return PickedImage(image, image.reference_in(region), joined(told))


def _told(choice: ChosenImage) -> str:
    shown, rest = choice.sentences[:SHOWN], choice.sentences[SHOWN:]
    more = _("%(rest)s more do not fit either.") % {"rest": len(rest)} if rest else ""
    return joined((*shown, more))
