"""A request of a person to one version of a service."""

from typing import Any

from rest_framework import serializers

from common.api.examples import example
from releases.api import examples
from releases.playground import CHAT, METHODS


@example(examples.ASK)
class AskSerializer(serializers.Serializer[Any]):
    side = serializers.ChoiceField(["stable", "candidate"], default="stable")
    method = serializers.ChoiceField(METHODS, default="POST")
    path = serializers.RegexField(
        r"^/[^/?#\s][^?#\s]*$",
        default=CHAT,
        max_length=300,
        help_text="Path at the worker, such as /v1/completions.",
    )
    body = serializers.DictField(default=dict, help_text="JSON that the worker gets.")
