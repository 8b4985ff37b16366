"""Figures that people and CI record of a version, whose files and digest they leave alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext as _

from accounts.services.rights import require
from accounts.states import Right
from common import audit, texts
from common.actor import Actor
from common.errors import Invalid, WrongState
from models_registry.facts.figures import MAX_FIGURES
from models_registry.facts.lineage import is_address
from models_registry.models import Evaluation, Version
from models_registry.selectors import evaluations
from models_registry.states import WHOLE

MAX_NAME, MAX_DATASET, MAX_UNIT, MAX_LINK = 100, 200, 20, 1_000


@dataclass(frozen=True, slots=True)
class FigureInput:
    """A figure as somebody gives it. A value of None takes it back; any other None: as was told before."""

    name: str
    value: float | None
    dataset: str = ""
    unit: str | None = None
    is_higher_better: bool | None = None
    link: str | None = None


def evaluate_version(
    *, actor: Actor, version: Version, figures: Sequence[FigureInput], reason: str = ""
) -> list[Evaluation]:
    """Record figures of a ready or archived version; what holds already adds nothing to its history.

    Returns what was added. Raises NotAllowed, Invalid, WrongState.
    """
    require(actor, Right.MODELS_WRITE, version.model.team)
    why = texts.reason(reason)
    wanted = _checked(figures)
    with transaction.atomic():
        # Locks the row: figures of one version are recorded one after the other.
        kept = Version.objects.filter(pk=version.pk, state__in=WHOLE)
        if not kept.update(attempt=F("attempt")):
            raise WrongState(
                _("%(version)s is neither ready nor archived: nothing is recorded of it.")
                % {"version": version}
            )
        held = {(row.dataset, row.name): row for row in evaluations.evaluations_in_force(version)}
        by = {"recorded_by": actor.name, "user_id": actor.user_id}
        added = []
        for figure in wanted:
            before = held.get((figure.dataset, figure.name))
            columns = _columns(figure, before)
            if not _holds(columns, before):
                named = {"name": figure.name, "dataset": figure.dataset}
                added.append(Evaluation(version=version, **named, **by, **columns))
        if len(held.keys() | {(row.dataset, row.name) for row in added}) > MAX_FIGURES:
            raise Invalid(
                fields={
                    "figures": [
                        _("A version has at most %(max_figures)s figures.") % {"max_figures": MAX_FIGURES}
                    ]
                }
            )
        if added:
            Evaluation.objects.bulk_create(added)
            told = {f"{row.dataset}/{row.name}".lstrip("/"): row.value for row in added}
            audit.record(
                actor,
                "version.evaluate",
                subject=version,
                reason=why,
                detail={"figures": told},
                team_id=version.model.team_id,
            )
    return added


def _checked(figures: Sequence[FigureInput]) -> list[FigureInput]:
    if not 0 < len(figures) <= MAX_FIGURES:
        raise Invalid(
            fields={"figures": [_("Give 1 to %(max_figures)s figures.") % {"max_figures": MAX_FIGURES}]}
        )
    checked = [_checked_one(figure) for figure in figures]
    seen = [(figure.dataset, figure.name) for figure in checked]
    if twice := next((key for key in seen if seen.count(key) > 1), None):
        named = " on ".join(part for part in reversed(twice) if part)
        raise Invalid(fields={"figures": [_("%(named)s is given twice.") % {"named": named}]})
    return checked


def _checked_one(figure: FigureInput) -> FigureInput:
    name = texts.name("figures", figure.name, limit=MAX_NAME)
    if not name:
        raise Invalid(fields={"figures": [_("A figure needs a name, such as accuracy.")]})
    if figure.value is not None and not math.isfinite(figure.value):
        raise Invalid(
            fields={"figures": [_("The value of %(name)s must be a finite number.") % {"name": name}]}
        )
    link = figure.link and texts.text("figures", figure.link, limit=MAX_LINK)
    if link and not is_address(link):
        raise Invalid(
            fields={"figures": [_("The link of %(name)s must be an http or https address.") % {"name": name}]}
        )
    return FigureInput(
        name=name,
        value=figure.value,
        dataset=texts.name("figures", figure.dataset, limit=MAX_DATASET),
        unit=None if figure.unit is None else texts.name("figures", figure.unit, limit=MAX_UNIT),
        is_higher_better=figure.is_higher_better,
        link=link,
    )


def _holds(columns: dict[str, Any], before: Evaluation | None) -> bool:
    """Whether there is nothing new in it; what was never told need not be taken back."""
    if before is None:
        return columns["value"] is None
    return all(getattr(before, name) == value for name, value in columns.items())


def _columns(figure: FigureInput, before: Evaluation | None) -> dict[str, Any]:
    """A direction that was told once holds until another is told; so does a unit. A link is of one value."""
    unit, direction = figure.unit, figure.is_higher_better
    if unit is None:
        unit = before.unit if before else ""
    if direction is None and before:
        direction = before.is_higher_better
    link = figure.link
    if link is None:
        link = before.link if before and before.value == figure.value else ""
    return {"value": figure.value, "unit": unit, "is_higher_better": direction, "link": link}
