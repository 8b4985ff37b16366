"""Syncs of sources on hubs."""

from typing import ClassVar

import django_filters
from rest_framework import serializers

from accounts.states import Right
from common.api.examples import example
from common.api.rows import ProgressSerializer
from hubs.api import examples
from hubs.api.transfers import FIELDS, TransferSerializer, TransferViews, shown_by
from hubs.models import HubSync
from hubs.services import syncs
from hubs.states import SYNC_STATES, SyncFailureCause


class CauseField(serializers.ChoiceField):
    """Why a sync failed, for programs."""

    def __init__(self) -> None:
        told = "Machine-readable cause of a failed sync; else empty."
        super().__init__(choices=SyncFailureCause.choices, allow_blank=True, read_only=True, help_text=told)


@example(examples.HUB_SYNC)
class HubSyncSerializer(TransferSerializer[HubSync]):
    source = serializers.IntegerField(source="source_id")  # type: ignore[assignment]
    repository = serializers.CharField(source="source", help_text="`org/name@revision`.")
    state = serializers.ChoiceField(choices=SYNC_STATES)
    cause = CauseField()
    commit = serializers.CharField(help_text="Commit that the revision resolved to; empty until then.")
    version = serializers.CharField(
        source="version.name", default=None, allow_null=True, help_text="Version created from the commit."
    )
    progress = ProgressSerializer(
        source="version", allow_null=True, help_text="Progress of the import; null until there is a version."
    )

    class Meta:
        model = HubSync
        fields = ("id", "source", "model", "repository", "cause", "version", "is_scheduled", *FIELDS)


class HubSyncFilter(django_filters.FilterSet):  # type: ignore[misc]
    source = django_filters.NumberFilter("source")
    model = django_filters.CharFilter("source__model__name")
    state = django_filters.MultipleChoiceFilter(choices=SYNC_STATES)


@shown_by(HubSyncSerializer)
class HubSyncs(TransferViews):
    """Syncs of sources: which commit each found, how far it is, and what became of it."""

    queryset = HubSync.objects.all()
    serializer_class = HubSyncSerializer
    transfers = syncs.SYNCS
    event = "sync"
    filterset_class = HubSyncFilter
    needs: ClassVar = dict.fromkeys(("pause", "resume", "cancel", "retry"), Right.MODELS_WRITE)
