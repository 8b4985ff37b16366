"""Events of a machine, page by page. They are kept where they are heard, and in no row."""

from collections.abc import Sequence
from typing import Any

from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.utils.urls import replace_query_param

from clusters.api import examples
from clusters.backends.kubernetes_events import KubernetesEvent
from clusters.shared_machines import SharedEvents
from common.api.cursors import DEFAULT_LIMIT, MAX_LIMIT, PageCursor
from common.api.examples import example

KINDS = ("Node", "Pod")
TYPES = ("Normal", "Warning")
EVENT_PARAMETERS = ("limit", "cursor", "kind", "name", "type", "q")
EVENT_SCHEMA = [
    OpenApiParameter("limit", OpenApiTypes.INT, description=f"Page size; default {DEFAULT_LIMIT}."),
    OpenApiParameter("cursor", OpenApiTypes.STR, description="Opaque cursor from `next`."),
    OpenApiParameter("kind", OpenApiTypes.STR, enum=KINDS, description="What they are about."),
    OpenApiParameter("name", OpenApiTypes.STR, description="Name of the pod, or of the machine."),
    OpenApiParameter("type", OpenApiTypes.STR, enum=TYPES),
    OpenApiParameter("q", OpenApiTypes.STR, description="Words that must occur in reason or message."),
]


class EventSerializer(serializers.Serializer[KubernetesEvent]):
    type = serializers.SerializerMethodField(help_text="`Normal` or `Warning`.")
    kind = serializers.CharField(help_text="What it is about: `Node` or `Pod`.")
    name = serializers.CharField()
    uid = serializers.CharField(help_text="Of that object; kubelets give the name of their machine.")
    reason = serializers.CharField()
    message = serializers.CharField()
    count = serializers.IntegerField(help_text="How often it was told.")
    first_at = serializers.DateTimeField(allow_null=True)
    last_at = serializers.DateTimeField(allow_null=True)
    by = serializers.CharField(help_text="Component that tells it, such as `kubelet`; empty: unknown.")

    def get_type(self, event: KubernetesEvent) -> str:
        return TYPES[event.is_warning]


@example(examples.NODE_EVENTS)
class EventsSerializer(serializers.Serializer[Any]):
    heard_at = serializers.DateTimeField(
        allow_null=True, help_text="When the cluster was last heard; null: nobody hears it at the moment."
    )
    next = serializers.URLField(allow_null=True, help_text="URL of the next page; null on the last.")
    results = EventSerializer(many=True)


def page_of(found: SharedEvents | None, request: Request) -> dict[str, Any]:
    """Raises ValidationError."""
    asked = request.query_params
    limit = _limit(asked.get("limit"))
    after = _after(asked.get("cursor"), request.path)
    for name, allowed in (("kind", KINDS), ("type", TYPES)):
        if name in asked and asked[name] not in allowed:
            raise ValidationError({name: [_("Give one of: %(values)s.") % {"values": ", ".join(allowed)}]})
    events = [one for one in (found.events if found else ()) if _is_wanted(one, asked)]
    events.sort(key=_place, reverse=True)
    if after is not None:
        events = [one for one in events if _place(one) < after]
    shown, rest = events[:limit], events[limit:]
    return {
        "heard_at": found.heard_at if found else None,
        "next": _next(request, shown[-1]) if rest else None,
        "results": shown,
    }


def _is_wanted(one: KubernetesEvent, asked: Any) -> bool:
    text = f"{one.reason} {one.message}".lower()
    return (
        asked.get("kind", one.kind) == one.kind
        and asked.get("name", one.name) == one.name
        and asked.get("type", TYPES[one.is_warning]) == TYPES[one.is_warning]
        and all(word in text for word in asked.get("q", "").lower().split())
    )


def _place(one: KubernetesEvent) -> tuple[float, Sequence[str]]:
    return (one.last_at.timestamp() if one.last_at else 0.0, [one.kind, one.name, one.reason, one.message])


def _next(request: Request, last: KubernetesEvent) -> str:
    at, key = _place(last)
    cursor = PageCursor("-last_at", True, {"at": at}, {"key": key}).sealed(request.path)
    return str(replace_query_param(request.build_absolute_uri(), "cursor", cursor))


def _after(text: str | None, path: str) -> tuple[float, Sequence[str]] | None:
    if text is None:
        return None
    try:
        cursor = PageCursor.opened(text, path)
        return cursor.value["at"], cursor.pk["key"]
    except (ValueError, KeyError, TypeError):
        raise ValidationError({"cursor": [_("Give the cursor of a former answer.")]}) from None


def _limit(text: str | None) -> int:
    if text is None:
        return DEFAULT_LIMIT
    if not text.isdecimal() or not 1 <= int(text[:9]) <= MAX_LIMIT:
        raise ValidationError({"limit": [_("Give a number from 1 to %(most)s.") % {"most": MAX_LIMIT}]})
    return int(text)
