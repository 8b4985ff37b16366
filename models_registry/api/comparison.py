"""Two versions side by side, over REST."""

from typing import Any

from rest_framework import serializers

from common.api.examples import example
from models_registry.api import comparison_examples as examples
from models_registry.api.serializers import FigureSerializer
from models_registry.facts.comparison import CHANGES, VersionComparison
from models_registry.models import Version


class FileChangeSerializer(serializers.Serializer[Any]):
    path = serializers.CharField()
    change = serializers.ChoiceField(choices=CHANGES)
    size_before = serializers.IntegerField(allow_null=True)
    size_after = serializers.IntegerField(allow_null=True)


class KeyChangeSerializer(serializers.Serializer[Any]):
    key = serializers.CharField()
    change = serializers.ChoiceField(choices=["changed", "added", "removed"])
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)


class TokenizerSerializer(serializers.Serializer[Any]):
    kind = serializers.CharField(help_text="`BPE`, `Unigram`, `WordPiece`, `SentencePiece`; or empty.")
    vocabulary = serializers.IntegerField(
        allow_null=True, help_text="Vocabulary size, added tokens included."
    )
    special_tokens = serializers.ListField(child=serializers.CharField())
    roles = serializers.DictField(
        child=serializers.CharField(), help_text="Special tokens, such as `eos_token`."
    )
    chat_template = serializers.CharField(help_text="sha256 of the chat template; empty: none.")


class TokenizerChangeSerializer(serializers.Serializer[Any]):
    change = serializers.ChoiceField(choices=CHANGES)
    before = TokenizerSerializer(allow_null=True, help_text="null: none.")
    after = TokenizerSerializer(allow_null=True)
    special_added = serializers.ListField(child=serializers.CharField())
    special_removed = serializers.ListField(child=serializers.CharField())
    chat_template = serializers.ChoiceField(choices=CHANGES)


class CardChangeSerializer(serializers.Serializer[Any]):
    change = serializers.ChoiceField(choices=CHANGES)
    lines = serializers.ListField(
        child=serializers.CharField(),
        help_text="Unified diff of the text, line by line.",
    )
    too_long = serializers.BooleanField(source="is_too_long", help_text="Too long for a diff.")


class FigureChangeSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(source="either.name")
    dataset = serializers.CharField(source="either.dataset")
    before = FigureSerializer(allow_null=True, help_text="null: no such metric.")
    after = FigureSerializer(allow_null=True)
    difference = serializers.FloatField(
        allow_null=True, help_text="null: one is missing, or the units differ."
    )
    better = serializers.BooleanField(
        source="is_better", allow_null=True, help_text="null: unchanged, or the direction is unknown."
    )


@example(examples.COMPARISON)
class ComparisonSerializer(serializers.Serializer[Any]):
    before = serializers.CharField()
    after = serializers.CharField()
    files = FileChangeSerializer(many=True)
    bytes = serializers.DictField(child=serializers.IntegerField(), help_text="Bytes per kind of change.")
    config = KeyChangeSerializer(many=True, help_text="Keys that differ.")
    facts = KeyChangeSerializer(many=True, help_text="Keys of `facts` that differ.")
    tokenizer = TokenizerChangeSerializer()
    card = CardChangeSerializer(help_text="The model card, README.md.")
    figures = FigureChangeSerializer(many=True, help_text="Metrics of both versions.")


def comparison_shown(before: Version, after: Version, found: VersionComparison) -> Any:
    shown = {
        "before": str(before),
        "after": str(after),
        "files": found.files,
        "bytes": {kind: found.bytes_of(kind) for kind in CHANGES},
        "config": found.config,
        "facts": found.facts,
        "tokenizer": found.tokenizer,
        "card": found.card,
        "figures": found.figures,
    }
    return ComparisonSerializer(shown).data
