"""Every write to the catalogue of images."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from accounts.models import Team
from accounts.services.rights import require_for_owner
from accounts.states import Right
from common import audit
from common.actor import Actor
from images import cuda, versions
from images.errors import ImageNameTaken, ImageNotDeprecated, InvalidImage
from images.models import ImageTrial, RuntimeImage
from images.references import reference_of, repository_of
from images.states import Acceleration, TrialOutcome
from serving.engines.registry import ENGINES
from trust.formats.summary import WEIGHT_FORMATS

FORMATS = tuple(name for name, _ in WEIGHT_FORMATS)
RESERVED = ("fit", "refresh")
MAX_MIRRORS, MAX_REGION, MAX_CODE = 50, 63, 40


def add_image(
    *,
    actor: Actor,
    team: Team | None,
    name: str,
    engine: str,
    reference: str,
    engine_version: str,
    cuda_version: str = "",
    least_driver: str = "",
    code: Sequence[str] = (),
    formats: Sequence[str] = (),
    runs_on_cpu: bool = False,
    size_bytes: int = 0,
    description: str = "",
    mirrors: Mapping[str, str] | None = None,
    acceleration: str = "",
    acceleration_why: str = "",
) -> RuntimeImage:
    """`reference` is `repository@sha256:...`; `code` lists compute capabilities as `cuda.code_of` reads them.

    Without a team it is for the whole installation. Raises NotAllowed, Invalid, ImageNameTaken.
    """
    require_for_owner(actor, Right.FLEET_OPERATE, team)
    named = reference_of(reference)
    image = RuntimeImage(
        team=team,
        name=name,
        engine=engine,
        repository=named.repository,
        digest=named.digest,
        engine_version=engine_version.strip(),
        cuda_version=_version("cuda_version", cuda_version),
        least_driver=_version("least_driver", least_driver),
        code=_code(code),
        formats=sorted(set(formats)),
        runs_on_cpu=runs_on_cpu,
        size_bytes=size_bytes,
        description=description.strip(),
        mirrors=_mirrors(mirrors or {}, named.digest),
        **_acceleration(acceleration, acceleration_why),
        created_by=actor.name,
    )
    _check(image)
    try:
        with transaction.atomic():
            image.save(force_insert=True)
            detail = {"engine": engine, "reference": image.reference}
            audit.record(actor, "image.add", subject=image, detail=detail, team_id=image.team_id)
    except IntegrityError:
        same = RuntimeImage.objects.filter(team=team, digest=named.digest).first()
        what = (
            _("This content is in the catalogue already, as %(same)s.") % {"same": same}
            if same
            else _("The name %(name)s is taken.") % {"name": name}
        )
        raise ImageNameTaken(
            _("%(what)s An image never changes; what differs gets a name of its own.") % {"what": what}
        ) from None
    return image


def change_image(
    *,
    actor: Actor,
    image: RuntimeImage,
    description: str | None = None,
    mirrors: Mapping[str, str] | None = None,
    acceleration: str | None = None,
    acceleration_why: str | None = None,
    expected: int | None = None,
) -> RuntimeImage:
    """Change what is given; deployments that run go on with what they pulled.

    Raises NotAllowed, Invalid, Stale when the revision is not the `expected` one.
    """
    require_for_owner(actor, Right.FLEET_OPERATE, image.team)
    changes: dict[str, Any] = {}
    if description is not None:
        changes["description"] = description.strip()
    if mirrors is not None:
        changes["mirrors"] = _mirrors(mirrors, image.digest)
    if acceleration is not None or acceleration_why is not None:
        changes |= _acceleration(
            image.acceleration if acceleration is None else acceleration,
            image.acceleration_why if acceleration_why is None else acceleration_why,
        )
    with transaction.atomic():
        image.change(expected=expected, **changes)
        audit.record(actor, "image.change", subject=image, detail=changes, team_id=image.team_id)
    return image


def deprecate_image(
    *,
    actor: Actor,
    image: RuntimeImage,
    reason: str,
    replaced_by: RuntimeImage | None = None,
    expected: int | None = None,
) -> RuntimeImage:
    """No release picks it by itself any more; one that names it still may, and what runs goes on.

    Once more changes the reason and the replacement. Raises NotAllowed, Invalid, Stale.
    """
    require_for_owner(actor, Right.FLEET_OPERATE, image.team)
    _check_replacement(image, replaced_by)
    with transaction.atomic():
        image.change(
            expected=expected,
            deprecated_at=image.deprecated_at or timezone.now(),
            deprecated_by=actor.name,
            deprecated_why=reason.strip(),
            replaced_by=replaced_by,
        )
        detail = {"replaced_by": replaced_by.name if replaced_by else None}
        audit.record(
            actor, "image.deprecate", subject=image, reason=reason, detail=detail, team_id=image.team_id
        )
    return image


def reinstate_image(
    *, actor: Actor, image: RuntimeImage, reason: str, expected: int | None = None
) -> RuntimeImage:
    """Releases may pick it again. Raises NotAllowed, Stale, ImageNotDeprecated when it is not deprecated."""
    require_for_owner(actor, Right.FLEET_OPERATE, image.team)
    if image.deprecated_at is None:
        raise ImageNotDeprecated(_("%(image)s is not deprecated.") % {"image": image})
    with transaction.atomic():
        image.change(
            expected=expected, deprecated_at=None, deprecated_by="", deprecated_why="", replaced_by=None
        )
        audit.record(actor, "image.reinstate", subject=image, reason=reason, team_id=image.team_id)
    return image


def note_trial(
    *,
    actor: Actor,
    image: RuntimeImage,
    gpu: str,
    outcome: TrialOutcome | str,
    driver: str = "",
    architecture: str = "",
    words: str = "",
) -> ImageTrial:
    """Note what came of running it; the last word about a GPU and an architecture counts.

    Raises NotAllowed, InvalidImage.
    """
    require_for_owner(actor, Right.FLEET_OPERATE, image.team)
    trial = ImageTrial(
        image=image,
        gpu=gpu.strip(),
        driver=_version("driver", driver),
        architecture=architecture.strip(),
        outcome=outcome,
        words=words.strip(),
        by=actor.name,
        user_id=actor.user_id,
    )
    try:
        trial.clean_fields()
    except ValidationError as error:
        raise InvalidImage(fields=error.message_dict) from None
    if trial.outcome == TrialOutcome.FAILS and not trial.words:
        raise InvalidImage(fields={"words": [_("Say how it fails: it keeps releases from this image.")]})
    with transaction.atomic():
        trial.save(force_insert=True)
        detail = {"gpu": trial.gpu, "architecture": trial.architecture, "outcome": trial.outcome}
        audit.record(
            actor, "image.trial", subject=image, reason=trial.words, detail=detail, team_id=image.team_id
        )
    return trial


def _check(image: RuntimeImage) -> None:
    faults: dict[str, list[str]] = {}
    if image.engine not in ENGINES:
        faults["engine"] = [
            _("There is no '%(engine)s'; use one of %(engines)s.")
            % {"engine": image.engine[:30], "engines": ", ".join(ENGINES)}
        ]
    if unknown := [one for one in image.formats if one not in FORMATS]:
        faults["formats"] = [
            _("'%(unknown)s' is none; use %(formats)s.")
            % {"unknown": unknown[0][:30], "formats": ", ".join(FORMATS)}
        ]
    if not versions.numbers(image.engine_version):
        faults["engine_version"] = [_("Give it as the engine does, such as 0.10.2.")]
    if not image.cuda_version and (image.code or image.least_driver):
        faults["cuda_version"] = [_("An image for GPUs says which CUDA it brings, such as 12.8.")]
    if not image.cuda_version and not image.runs_on_cpu:
        faults["runs_on_cpu"] = [_("Without CUDA it runs on the CPU or nowhere: say so, or say which CUDA.")]
    if image.name in RESERVED:
        faults["name"] = [
            _("'%(image)s' is part of an address; choose another name.") % {"image": image.name}
        ]
    try:
        image.clean_fields(exclude=["engine", "team"])
    except ValidationError as error:
        faults = error.message_dict | faults
    if faults:
        raise InvalidImage(fields=faults)


def _check_replacement(image: RuntimeImage, other: RuntimeImage | None) -> None:
    if other is None:
        return
    if other.pk == image.pk or other.engine != image.engine:
        raise InvalidImage(
            fields={"replaced_by": [_("Name another image of %(engine)s.") % {"engine": image.engine}]}
        )
    if other.deprecated_at is not None:
        raise InvalidImage(fields={"replaced_by": [_("%(other)s is deprecated itself.") % {"other": other}]})
    if other.team_id not in (None, image.team_id):
        raise InvalidImage(
            fields={
                "replaced_by": [
                    _("%(other)s is of a team; %(image)s is for others too.")
                    % {"other": other, "image": image}
                ]
            }
        )


def _version(field: str, text: str) -> str:
    text = text.strip()
    if text and not versions.numbers(text):
        raise InvalidImage(
            fields={field: [_("'%(text)s' is no version; give one such as 550.54.14.") % {"text": text[:20]}]}
        )
    return text


def _code(listed: Sequence[str]) -> list[str]:
    if len(listed) > MAX_CODE:
        raise InvalidImage(fields={"code": [_("At most %(max_code)s.") % {"max_code": MAX_CODE}]})
    found = []
    for text in listed:
        code = cuda.code_of(text)
        if code is None:
            hint = _("write 9.0, 9.0a or 9.0+PTX, or sm_90 as torch.cuda.get_arch_list() prints it")
            raise InvalidImage(
                fields={
                    "code": [
                        _("'%(text)s' is no compute capability: %(hint)s.")
                        % {"text": text[:20], "hint": hint}
                    ]
                }
            )
        found.append(code)
    ordered = sorted(set(found), key=lambda one: (one.major, one.minor, one.only, one.has_ptx))
    return [str(code) for code in ordered]


def _mirrors(given: Mapping[str, str], digest: str) -> dict[str, str]:
    """Repositories by region, each alone or with the image's own digest."""
    if len(given) > MAX_MIRRORS:
        raise InvalidImage(
            fields={"mirrors": [_("At most %(max_mirrors)s regions.") % {"max_mirrors": MAX_MIRRORS}]}
        )
    found = {}
    for region, repository in given.items():
        if not 0 < len(region) <= MAX_REGION or not region.isprintable() or region != region.strip():
            raise InvalidImage(
                fields={
                    "mirrors": [
                        _("'%(max_region)s' cannot name a region.") % {"max_region": region[:MAX_REGION]}
                    ]
                }
            )
        repository, at, named = repository.strip().partition("@")
        if at and named != digest:
            sentence = _(
                "%(region)s: a mirror holds the same content, %(digest)s; %(named)s is other content."
            ) % {"region": region, "digest": digest, "named": named[:71]}
            raise InvalidImage(fields={"mirrors": [sentence]})
        found[region] = repository_of(repository, field="mirrors")
    return found


def _acceleration(kind: str, why: str) -> dict[str, str]:
    why = why.strip()
    if kind not in Acceleration.values:
        known = ", ".join(value for value in Acceleration.values if value)
        raise InvalidImage(
            fields={
                "acceleration": [
                    _("There is no '%(kind)s'; use %(known)s, or nothing.")
                    % {"kind": kind[:20], "known": known}
                ]
            }
        )
    if kind and not why:
        raise InvalidImage(fields={"acceleration_why": [_("Say in a sentence why a cluster should do so.")]})
    return {"acceleration": kind, "acceleration_why": why if kind else ""}
