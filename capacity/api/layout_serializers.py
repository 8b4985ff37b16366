"""Cards and their layouts over REST."""

from typing import Any

from rest_framework import serializers

from capacity.api.fragment_serializers import TIME
from capacity.models import CardLayout
from capacity.needs import MEASURED_DAYS
from capacity.planning.mps import MOST_CLIENTS
from capacity.states import CardSharing, LayoutState
from clusters.gpu_needs import MOST_DAYS
from common.api.examples import example

NEED = {"name": "embedder", "memory_mib": 9000, "share": 0.1}
INSTANCE = {"profile": "1g.10gb", "begin": 6, "name": "embedder"}
CARD = {
    "machine": "gpu-07",
    "card": 3,
    "model": "H100-80GB",
    "holder": "",
    "instances": [INSTANCE],
    "is_simulated": True,
    "closed": "",
    "way": "",
    "room": {},
}


@example(NEED)
class SliceNeedSerializer(serializers.Serializer[Any]):
    """Need of one model on a card; figures left out are those measured of the service of that name."""

    name = serializers.CharField(max_length=63)
    memory_mib = serializers.IntegerField(min_value=1, required=False, help_text="At its peak.")
    share = serializers.FloatField(min_value=0, max_value=1, required=False, help_text="Of the card's time.")


@example(INSTANCE)
class MigInstanceSerializer(serializers.Serializer[Any]):
    """A MIG instance or an MPS share of a card."""

    profile = serializers.CharField(help_text="Of MIG; `mps`: it is a share.")
    begin = serializers.IntegerField(
        required=False, help_text="First of its memory slices, of 8; of MIG alone."
    )
    name = serializers.CharField(allow_blank=True, help_text="Model that it is for.")
    threads = serializers.IntegerField(required=False, help_text="Percentage at most; of MPS alone.")
    memory_mib = serializers.IntegerField(required=False, help_text="At most; of MPS alone.")
    template = serializers.CharField(
        required=False, help_text="ResourceClaimTemplate that a pod names to get it; where pods claim parts."
    )


@example(CARD)
class PoolCardSerializer(serializers.Serializer[Any]):
    """A card of a pool."""

    machine = serializers.CharField()
    card = serializers.IntegerField()
    model = serializers.CharField(allow_blank=True)
    holder = serializers.CharField(allow_blank=True, help_text="Workload that has it.")
    instances = MigInstanceSerializer(many=True, help_text="Empty: it is whole.")
    is_simulated = serializers.BooleanField(help_text="The machine is declared.")
    closed = serializers.CharField(allow_blank=True, help_text="Code of why nothing is placed there.")
    way = serializers.CharField(
        allow_blank=True,
        help_text="Who divides it: `label` (of the machine, all its cards), `claims` of pods (DRA); empty: "
        "nobody, it is declared.",
    )
    room = serializers.DictField(
        child=serializers.IntegerField(),
        help_text="Instances of each profile that pods could still claim, each profile for itself.",
    )


@example({"cards": [CARD]})
class PoolCardsSerializer(serializers.Serializer[Any]):
    """Cards of a pool's machines."""

    cards = PoolCardSerializer(many=True)


@example({"machine": "gpu-07", "card": 3, "sharing": "mig", "needs": [NEED], "drain": False, "dry_run": True})
class CardLayoutWish(serializers.Serializer[Any]):
    machine = serializers.CharField(max_length=253)
    card = serializers.IntegerField(
        min_value=0,
        required=False,
        allow_null=True,
        help_text="Of a declared machine; null: all cards, which a cluster divides alike.",
    )
    sharing = serializers.ChoiceField(CardSharing.choices, default=CardSharing.MIG)
    needs = serializers.ListField(
        child=SliceNeedSerializer(), max_length=MOST_CLIENTS, help_text="Empty: the whole card."
    )
    drain = serializers.BooleanField(default=False, help_text="Ask who holds it to leave; else refuse.")
    dry_run = serializers.BooleanField(default=False, help_text="Answer the layout, change nothing.")
    reason = serializers.CharField(max_length=500, required=False, allow_blank=True)
    days = serializers.IntegerField(
        min_value=1, max_value=MOST_DAYS, required=False, help_text="That measured needs are of."
    )


MEASURED = {
    "service": "embedder",
    "days": 7,
    "minutes": 9120,
    "memory_p95_mib": 8640,
    "memory_peak_mib": 8912,
    "busy_p95": 0.41,
    "share": 0.41,
    "gpus": 1,
    "measured_by": "workers",
}


@example(MEASURED)
class MeasuredNeedSerializer(serializers.Serializer[Any]):
    """GPU memory and Busy of one worker of a service, as they were measured. Null: not measured."""

    service = serializers.CharField()
    days = serializers.IntegerField(help_text="Of the past that were looked at.")
    minutes = serializers.IntegerField(help_text="In which GPU memory was measured.")
    memory_p95_mib = serializers.IntegerField(allow_null=True)
    memory_peak_mib = serializers.IntegerField(allow_null=True, help_text="Highest minute: layouts hold it.")
    busy_p95 = serializers.FloatField(allow_null=True)
    share = serializers.FloatField(allow_null=True, help_text="P95 of Busy as a share of a whole card.")
    gpus = serializers.IntegerField(help_text="Whole cards that a worker holds.")
    measured_by = serializers.CharField(help_text="`workers`: heartbeats; or the app that measured.")


@example({"needs": [MEASURED]})
class MeasuredNeedsSerializer(serializers.Serializer[Any]):
    """Measured needs of the services of a pool's cluster."""

    needs = MeasuredNeedSerializer(many=True)


@example({"days": 7})
class MeasuredDays(serializers.Serializer[Any]):
    days = serializers.IntegerField(min_value=1, max_value=MOST_DAYS, default=MEASURED_DAYS)


LAYOUT = {
    "id": 4,
    "pool": 7,
    "machine": "gpu-07",
    "card": 3,
    "sharing": "mig",
    "model": "H100-80GB",
    "instances": [INSTANCE],
    "before": [],
    "config": "",
    "is_simulated": True,
    "drains": False,
    "state": "applied",
    "problem": "",
    "reason": "",
    "decided_by": "olga",
    "undoes": None,
    "created_at": TIME,
    "ended_at": TIME,
}


@example(LAYOUT)
class CardLayoutSerializer(serializers.ModelSerializer[CardLayout]):
    state = serializers.ChoiceField(LayoutState.choices)
    sharing = serializers.ChoiceField(CardSharing.choices)
    instances = MigInstanceSerializer(many=True)
    before = MigInstanceSerializer(many=True)
    is_simulated = serializers.BooleanField()

    class Meta:
        model = CardLayout
        fields = tuple(LAYOUT)
