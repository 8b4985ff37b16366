"""One version, a new one, and what people do with it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db.models import Case, When
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.actors import of_request
from accounts.selectors import may, may_everywhere
from accounts.states import Right
from common.errors import SlipwayError
from common.languages import Text
from common.pages.access import or_404, signed_in
from common.pages.answers import UNPROCESSABLE, dialog_fields, done, page, refusals_at_the_form
from common.pages.forms import blame, filled, reason_of
from model_store.states import CorruptBlobState
from models_registry import exemptions
from models_registry.facts import comparison, lineage
from models_registry.facts.figures import Figure
from models_registry.facts.readme import RenderedCard
from models_registry.forms.versions import ImportForm, TagForm
from models_registry.history import history
from models_registry.importing.sources import roots_elsewhere
from models_registry.models import Model, Version
from models_registry.panels import panels
from models_registry.selectors import evaluations, versions
from models_registry.services import archiving, imports, signature_verification
from models_registry.services import versions as version_services
from models_registry.states import WHOLE, VersionState
from models_registry.views.models import card_of, frame, is_moving, push_command, visible_model
from trust import signature_policy

FILES_SHOWN = 500
MOVES_SHOWN = 50
CHILDREN_SHOWN = 20
EVALUATIONS_SHOWN = 50
NEEDS_REASON = ("archive", "delete")


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def import_version(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    model = visible_model(actor, name)
    form = ImportForm(request.POST if request.method == "POST" else None, initial=request.GET.dict())
    if form.is_bound and form.is_valid():
        try:
            version = imports.import_version(actor=actor, model=model, **form.wishes())
        except (SlipwayError, ValidationError) as error:
            blame(form, error, {"lineage": "parent"})
        else:
            return done(
                request, _("%(version)s is being imported.") % {"version": version}, to=url_of(version)
            )
    context = frame(actor, model) | {
        "form": form,
        "roots": settings.SLIPWAY_IMPORT_ROOTS,
        "roots_elsewhere": roots_elsewhere(),
        "hubs": settings.SLIPWAY_HUB_ENDPOINTS,
        "push_command": push_command(model),
    }
    status = UNPROCESSABLE if form.is_bound else 200
    return page(request, "models_registry/import.html", context, status=status)


@require_safe
@signed_in
def version_page(request: HttpRequest, name: str, version: str) -> HttpResponse:
    actor = of_request(request)
    model = visible_model(actor, name)
    row = or_404(versions.version_named, model, version, or_deleted=True)
    is_gone = row.state == VersionState.DELETED
    card = versions.version_card(row)
    files = list(versions.version_files(row)[: FILES_SHOWN + 1])
    context = frame(actor, model) | {
        "version": row,
        "card": card,
        "damage": None if is_gone else _damage(row),
        "may_see_store": may_everywhere(actor, Right.FLEET_OPERATE),
        "panels": panels(actor, row),
        "may_export": may(actor, Right.MODELS_EXPORT, model.team_id),
        "is_moving": is_moving(row),
        "files": files[:FILES_SHOWN],
        "has_more_files": len(files) > FILES_SHOWN,
        "config": sorted(comparison.flattened(row.config).items()),
        "facts": row.facts,
        "kv_cache_at_full_context": _kv_cache_at_full_context(row),
        "standing": card.standing,
        "demand": signature_policy.demand_of(model.team_id),
        "signs": signature_policy.is_signing(),
        "code": (code := exemptions.code_of(row)),
        "exemption": exemptions.exemption_of(row) if code else None,
        "readme": (readme := card_of(row) if row.state in WHOLE else {}),
        "figures": _figures(row, readme.get("card")),
        "evaluations": list(evaluations.evaluations(row)[:EVALUATIONS_SHOWN]),
        "is_gone": is_gone,
        "moves": list(versions.version_moves(row).order_by("-pk")[:MOVES_SHOWN]),
        "entries": history(actor, row, limit=MOVES_SHOWN),
        "origins": lineage.origins(row.lineage, hub=next(iter(settings.SLIPWAY_HUB_ENDPOINTS), "")),
        "children": list(versions.made_from(actor, row)[:CHILDREN_SHOWN]),
        "told": sorted(comparison.flattened(_told(row)).items()),
        "compare": _side_by_side(row),
    }
    return page(request, "models_registry/version.html", context, parts=("now",))


@dataclass(frozen=True)
class VersionDamage:
    """The damaged and missing files of a version: whether some are given up, and some being fetched."""

    is_given_up: bool
    is_fetched: bool


def _damage(version: Version) -> VersionDamage | None:
    found = versions.damages(version)
    given_up = [one for one in found if one.state == CorruptBlobState.LOST or one.stuck_at]
    return VersionDamage(bool(given_up), is_fetched=len(given_up) < len(found)) if found else None


def _side_by_side(version: Version) -> dict[str, str] | None:
    """Names of the version and the one that it came after: its parent, or else the next older one. The oldest
    stands beside the next newer one. None without another ready one of the model.
    """
    ready = Version.objects.ready().filter(model=version.model_id).exclude(pk=version.pk)
    older, newer = ready.filter(number__lt=version.number), ready.filter(number__gt=version.number)
    is_parent = Case(When(pk=version.parent_id, then=0), default=1)
    names = older.order_by(is_parent, "-number").values_list("name", flat=True)
    if (before := names.first()) is not None:
        return {"before": before, "after": version.name, "other": before}
    after = newer.order_by("number").values_list("name", flat=True).first()
    return {"before": version.name, "after": after, "other": after} if after is not None else None


def _figures(version: Version, card: RenderedCard | None) -> list[tuple[Figure, str]]:
    """Return figures with the address that each names, if that can be opened."""
    found = [*evaluations.recorded_figures(version), *(card.figures if card else ())]
    return [(one, one.link if lineage.is_address(one.link) else "") for one in found]


def _told(version: Version) -> dict[str, Any]:
    """Return the author's statements beside what `lineage` knows the meaning of."""
    return {key: value for key, value in version.lineage.items() if key not in lineage.TOLD}


def _kv_cache_at_full_context(version: Version) -> int | None:
    """GPU memory for one sequence of as many tokens as the model takes, in bytes."""
    per_1k_tokens = version.facts and version.facts["memory"]["kv_cache_bytes_per_1k_tokens"]
    if not per_1k_tokens or not version.context_length:
        return None
    return int(per_1k_tokens * version.context_length // 1_000)


Wish = Callable[..., Any]
WISHES: dict[str, tuple[Wish, Text]] = {
    "retry": (imports.retry_import, gettext_lazy("{version} is being imported again.")),
    "cancel": (imports.cancel_import, gettext_lazy("The import of {version} is cancelled.")),
    "archive": (archiving.archive_version, gettext_lazy("{version} is archived.")),
    "restore": (archiving.restore_version, gettext_lazy("{version} is ready again.")),
    "verify": (
        signature_verification.verify_signatures,
        gettext_lazy("The signatures of {version} are being looked at."),
    ),
    "delete": (version_services.delete_version, gettext_lazy("{version} is deleted.")),
}


@require_POST
@signed_in
@refusals_at_the_form
def act(request: HttpRequest, name: str, version: str, wish: str) -> HttpResponse:
    if wish not in WISHES:
        raise Http404
    actor = of_request(request)
    row = visible_version(visible_model(actor, name), version)
    why = reason_of(request, is_demanded=wish in NEEDS_REASON)
    service, words = WISHES[wish]
    service(actor=actor, version=row, reason=why)
    to = f"/models/{name}/" if wish == "delete" else None
    return done(request, words.format(version=row), to=to)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
@refusals_at_the_form
def tag_version(request: HttpRequest, name: str, version: str) -> HttpResponse:
    """The tags that were added to the shown ones are added, those that were taken away are taken away.

    Asked for with GET: the fields of its dialog.
    """
    actor = of_request(request)
    row = visible_version(visible_model(actor, name), version)
    if request.method != "POST":
        shown = " ".join(sorted(versions.version_card(row).tags))
        return dialog_fields(request, TagForm(initial={"before": shown, "tags": shown}, auto_id="tag_%s"))
    given = filled(TagForm(request.POST)).cleaned_data
    archiving.tag_version(
        actor=actor,
        version=row,
        add=sorted(given["tags"] - given["before"]),
        remove=sorted(given["before"] - given["tags"]),
        reason=reason_of(request, is_demanded=False),
    )
    return done(request, _("The tags of %(row)s are changed.") % {"row": row})


def visible_version(model: Model, reference: str) -> Version:
    """Raises Http404."""
    return or_404(versions.version_named, model, reference)


def url_of(version: Version) -> str:
    return f"/models/{version.model.name}/{version.name}/"
