"""Two versions of a model, side by side."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from accounts.actors import of_request
from common.errors import Missing, SlipwayError
from common.pages import formats
from common.pages.access import signed_in
from common.pages.answers import page
from models_registry.facts.comparison import CHANGES, TokenizerChange
from models_registry.models import Model, Version
from models_registry.selectors import versions
from models_registry.states import VersionState
from models_registry.views.models import frame, visible_model

LINE_TONES = {"+": "new", "-": "old", "@": "place"}


@require_safe
@signed_in
def compare(request: HttpRequest, name: str) -> HttpResponse:
    """`?before=v1&after=v2`; without them the two newest ready versions."""
    actor = of_request(request)
    model = visible_model(actor, name)
    ready = Version.objects.ready().filter(model=model).defer("config", "scan").order_by("-number")
    choices = list(ready[:200])
    context = frame(actor, model) | {"choices": choices, "comparison": None, "problem": ""}
    wanted = [request.GET.get("before", ""), request.GET.get("after", "")]
    if not any(wanted) and len(choices) > 1:
        wanted = [choices[1].name, choices[0].name]
    if any(wanted) and not all(wanted) and len(choices) > 1:
        context["problem"] = _("Choose the other version.")
    if all(wanted):
        try:
            context |= _compared(*(_ready(model, one) for one in wanted))
        except SlipwayError as error:
            context["problem"] = str(error)
    context["wanted"] = wanted
    return page(request, "models_registry/compare.html", context, parts=("comparison",))


def _ready(model: Model, reference: str) -> Version:
    version = versions.version_named(model, reference)
    if version.state != VersionState.READY:
        raise Missing(
            _("%(version)s is %(state)s, not ready: there is nothing to compare.")
            % {"version": version, "state": version.get_state_display().lower()}
        )
    return version


def _compared(before: Version, after: Version) -> dict[str, Any]:
    found = versions.compare_versions(before, after)
    kinds = [*CHANGES[2:], *CHANGES[1::-1]]
    return {
        "before": before,
        "after": after,
        "comparison": found,
        "facts": _facts(before, after),
        "tokenizer": _tokenizer(found.tokenizer),
        "card_lines": [(LINE_TONES.get(line[:1], ""), line) for line in found.card.lines],
        "code": [
            (one, [(LINE_TONES.get(line[:1], ""), line) for line in one.text.lines]) for one in found.code
        ],
        "changed_files": [file for file in found.files if file.change != "same"],
        "same_files": [file for file in found.files if file.change == "same"],
        "totals": [(kind, found.count_of(kind), found.bytes_of(kind)) for kind in kinds],
    }


def _facts(before: Version, after: Version) -> list[tuple[str, Any, Any, str]]:
    """Label, the two values, and how they are shown: to the byte where they would look the same."""
    rows = [
        (_("Size"), before.size_bytes, after.size_bytes, "bytes"),
        (_("Files"), before.file_count, after.file_count, "count"),
        (_("Parameters"), before.parameters, after.parameters, "count"),
        (_("Architecture"), before.architecture, after.architecture, ""),
        (_("Weights"), before.dtype, after.dtype, ""),
        (_("Quantization"), before.quantization, after.quantization, ""),
        (_("Context"), before.context_length, after.context_length, "count"),
        *(
            (label, _fact(before, path), _fact(after, path), how)
            for label, path, how in (
                (_("Layers"), "layers", "count"),
                (_("Hidden size"), "hidden_size", "count"),
                (_("Heads"), "attention_heads", "count"),
                (_("KV heads"), "kv_heads", "count"),
                (_("Head size"), "head_dim", "count"),
                (_("Vocabulary"), "vocabulary", "count"),
                (_("Memory for weights"), "memory.weights_bytes", "memory"),
                (_("KV cache per 1k tokens"), "memory.kv_cache_bytes_per_1k_tokens", "memory"),
            )
        ),
    ]
    return [
        (label, one, other, "exact" if _looks_equal(one, other, how) else how)
        for label, one, other, how in rows
    ]


def _looks_equal(one: Any, other: Any, how: str) -> bool:
    if how not in ("bytes", "memory") or None in (one, other) or one == other:
        return False
    text = formats.byte_size if how == "bytes" else formats.memory_size
    return text(one) == text(other)


def _fact(version: Version, path: str) -> Any:
    """Return a fact, or None if the files lack it or have not been read for it yet."""
    value: Any = version.facts
    for key in path.split("."):
        value = value[key] if value else None
    return value


def _tokenizer(found: TokenizerChange) -> list[tuple[str, Any, Any]]:
    """Label and the two values; empty where neither has a tokenizer."""
    one, other = found.before, found.after
    roles = sorted({*(one.roles if one else ()), *(other.roles if other else ())})
    rows = [
        (_("Kind"), one and one.kind, other and other.kind),
        (_("Tokens"), one and one.vocabulary, other and other.vocabulary),
        (_("Special tokens"), one and len(one.special_tokens), other and len(other.special_tokens)),
        *((role, one and one.roles.get(role), other and other.roles.get(role)) for role in roles),
        (_("Chat template"), one and one.chat_template[:12], other and other.chat_template[:12]),
    ]
    return rows if one or other else []
