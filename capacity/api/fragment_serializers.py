"""Fragments of cards over REST."""

from typing import Any

from rest_framework import serializers

from capacity.models import (
    CardSample,
)
from common.api.examples import example

TIME = "2026-11-20T08:00:00Z"
COUNTS = {"1": 12, "2": 5, "4": 2, "8": 0, "16": 0}
FRAGMENTS = {"rack": "r1", "machines": 4, "cards": 32, "free": 12, "startable": COUNTS}


SAMPLE = {"rack": "r1", "at": TIME, "free": 12, "startable": COUNTS}


@example(FRAGMENTS)
class RackFragmentsSerializer(serializers.Serializer[Any]):
    """Free cards of a rack, and jobs by their cards that could start there now."""

    rack = serializers.CharField(allow_blank=True)
    machines = serializers.IntegerField()
    cards = serializers.IntegerField()
    free = serializers.IntegerField()
    startable = serializers.DictField(child=serializers.IntegerField())


@example(SAMPLE)
class CardSampleSerializer(serializers.ModelSerializer[CardSample]):
    startable = serializers.DictField(child=serializers.IntegerField())

    class Meta:
        model = CardSample
        fields = tuple(SAMPLE)


@example({"racks": [FRAGMENTS], "samples": [SAMPLE]})
class FragmentsSerializer(serializers.Serializer[Any]):
    """Jobs that could start now, by rack, and over the last day."""

    racks = RackFragmentsSerializer(many=True)
    samples = CardSampleSerializer(many=True)


@example({"cards": 8, "machines": 1, "dry_run": True})
class DefragmentWish(serializers.Serializer[Any]):
    cards = serializers.IntegerField(min_value=1, help_text="Of the machines to free.")
    machines = serializers.IntegerField(min_value=1, default=1, help_text="To free more than there are.")
    dry_run = serializers.BooleanField(default=False, help_text="Answer the moves, propose nothing.")
    reason = serializers.CharField(max_length=500, required=False, allow_blank=True)
