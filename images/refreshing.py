"""Proposes images for the catalogue from what a registry has, and adds them when that is wanted."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from time import monotonic
from typing import Any

from django.utils.translation import gettext as _

from accounts.models import Team
from accounts.services.rights import require_for_owner
from accounts.states import Right
from common.actor import Actor
from common.errors import Invalid, SlipwayError
from images import cuda, services, versions
from images.models import RuntimeImage
from images.presets import PRESETS, ImagePreset
from images.registry import Registry, RegistryImage

ALL_WITHIN_SECONDS = 45.0
PLATFORM = "linux/amd64"


class RefreshOutcome(StrEnum):
    NEW = "new"
    MOVED = "moved"
    """The tag named other content before: that image stays, and this one is another."""
    KNOWN = "known"
    FAILED = "failed"


ADDABLE = (RefreshOutcome.NEW, RefreshOutcome.MOVED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    preset: str
    outcome: RefreshOutcome
    tag: str = ""
    name: str = ""
    """Of the image in the catalogue, or that it gets there."""
    reference: str = ""
    engine: str = ""
    engine_version: str = ""
    cuda_version: str = ""
    code: tuple[str, ...] = ()
    size_bytes: int = 0
    is_added: bool = False
    problem: str = ""


def refresh_images(
    *,
    actor: Actor,
    registry: str,
    presets: Sequence[str] = (),
    team: Team | None = None,
    tag: str = "",
    platform: str = PLATFORM,
    pull_secret: str = "",
    add: bool = False,
) -> list[Proposal]:
    """Read the newest tag of each preset, or `tag` of one, and add what is new if `add`.

    An image never changes: a tag that names other content gives another row. Without presets all are read.
    Raises NotAllowed, Invalid.
    """
    require_for_owner(actor, Right.FLEET_OPERATE, team)
    if unknown := [name for name in presets if name not in PRESETS]:
        known = ", ".join(PRESETS)
        fault = _("There is no preset '%(name)s'; use %(known)s.") % {"name": unknown[0][:40], "known": known}
        raise Invalid(fields={"presets": [fault]})
    if tag and len(presets) != 1:
        raise Invalid(fields={"tag": [_("Name the one preset that the tag is of.")]})
    source = Registry(registry, pull_secret=pull_secret)
    proposals: list[Proposal] = []
    until = monotonic() + ALL_WITHIN_SECONDS
    for preset in (PRESETS[name] for name in presets or PRESETS):
        if monotonic() > until:
            late = _("The registry is slow: it was not asked for this one. Name fewer presets.")
            proposals.append(_failed(preset, late))
            continue
        for proposal in _proposals(source, preset, team, tag, platform):
            is_wanted = add and proposal.outcome in ADDABLE
            proposals.append(_added(actor, team, preset, proposal) if is_wanted else proposal)
    return proposals


def _proposals(
    source: Registry, preset: ImagePreset, team: Team | None, tag: str, platform: str
) -> Iterator[Proposal]:
    try:
        tags = [tag] if tag else preset.newest(source.tags(preset.repository))
        if not tags:
            yield _failed(preset, _("No tag of the repository is one of a release of this engine."))
        for name in tags:
            if preset.match(name) is None:
                yield _failed(
                    preset, _("%(tag)s is no tag of a release of this engine.") % {"tag": name[:128]}
                )
                continue
            image = source.image(preset.repository, name, platform=platform)
            yield _proposal(source, preset, team, name, image)
    except Invalid:
        raise
    except SlipwayError as error:
        yield _failed(preset, str(error))


def _proposal(
    source: Registry, preset: ImagePreset, team: Team | None, tag: str, image: RegistryImage
) -> Proposal:
    read = preset.match(tag)
    assert read is not None  # noqa: S101  (checked by the caller)
    version, said = read["version"], read.groupdict().get("cuda") or ""
    name = "-".join(part for part in (preset.name, version, f"cu{said}" if said else "") if part)
    proposal = Proposal(
        preset=preset.name,
        outcome=RefreshOutcome.NEW,
        tag=tag,
        name=name,
        reference=f"{source.repository(preset.repository)}@{image.digest}",
        engine=preset.engine,
        engine_version=version,
        cuda_version=f"{said[:-1]}.{said[-1]}"
        if said
        else _cuda(image.environment.get(preset.cuda_variable, "")),
        code=_code(image.environment.get("TORCH_CUDA_ARCH_LIST", "")),
        size_bytes=image.size_bytes,
    )
    same = RuntimeImage.objects.filter(team=team, digest=image.digest).first()
    if same is not None:
        return replace(proposal, outcome=RefreshOutcome.KNOWN, name=same.name)
    if not proposal.cuda_version:
        proposal = replace(proposal, code=())
        if not preset.runs_on_cpu:
            words = _(
                "Its configuration does not say which CUDA it brings: slipway images add %(name)s --cuda ..."
            )
            return replace(proposal, outcome=RefreshOutcome.FAILED, problem=words % {"name": name})
    taken = RuntimeImage.objects.filter(name=name).first()
    if taken is None:
        return proposal
    proposal = replace(proposal, name=f"{name}-{image.digest.removeprefix('sha256:')[:8]}")
    is_same_tag = taken.team == team and taken.repository == source.repository(preset.repository)
    return replace(proposal, outcome=RefreshOutcome.MOVED) if is_same_tag else proposal


def _added(actor: Actor, team: Team | None, preset: ImagePreset, proposal: Proposal) -> Proposal:
    given: dict[str, Any] = {
        "name": proposal.name,
        "engine": proposal.engine,
        "reference": proposal.reference,
        "engine_version": proposal.engine_version,
        "cuda_version": proposal.cuda_version,
        "code": proposal.code,
        "formats": preset.formats,
        "runs_on_cpu": preset.runs_on_cpu,
        "size_bytes": proposal.size_bytes,
        "description": _("Tag %(tag)s, as the registry had it when it was added.") % {"tag": proposal.tag},
    }
    try:
        services.add_image(actor=actor, team=team, **given)
    except SlipwayError as error:
        return replace(proposal, outcome=RefreshOutcome.FAILED, problem=str(error))
    return replace(proposal, is_added=True)


def _cuda(text: str) -> str:
    """`12.8.1` as 12.8; empty where it is no version."""
    return ".".join(text.split(".")[:2]) if versions.numbers(text) else ""


def _code(text: str) -> tuple[str, ...]:
    """TORCH_CUDA_ARCH_LIST: `8.0 8.9 9.0+PTX`, or with semicolons; names such as Hopper are left out."""
    return tuple(one for one in text.replace(";", " ").split() if cuda.code_of(one) is not None)


def _failed(preset: ImagePreset, problem: str) -> Proposal:
    return Proposal(preset=preset.name, outcome=RefreshOutcome.FAILED, problem=problem)
