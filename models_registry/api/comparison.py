"""Two versions side by side, over REST."""

from typing import Any

from rest_framework import serializers

from common.api.examples import example
from models_registry.api import comparison_examples as examples
from models_registry.api.serializers import FigureSerializer
from models_registry.facts.comparison import CHANGES, Comparison
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
    vocabulary = serializers.IntegerField(allow_null=True, help_text="Tokens, added ones among them.")
    special_tokens = serializers.ListField(child=serializers.CharField())
    roles = serializers.DictField(
        child=serializers.CharField(), help_text="What stands for what, such as `eos_token`."
    )
    chat_template = serializers.CharField(help_text="sha256 of the chat template; empty: none.")


class TokenizerChangeSerializer(serializers.Serializer[Any]):
    change = serializers.ChoiceField(choices=CHANGES)
    before = TokenizerSerializer(allow_null=True, help_text="Null: it has none.")
    after = TokenizerSerializer(allow_null=True)
    special_added = serializers.ListField(child=serializers.CharField())
    special_removed = serializers.ListField(child=serializers.CharField())
    chat_template = serializers.ChoiceField(choices=CHANGES)


class CardChangeSerializer(serializers.Serializer[Any]):
    change = serializers.ChoiceField(choices=CHANGES)
    lines = serializers.ListField(
        child=serializers.CharField(),
        help_text="A unified diff of the text, of lines with `+`, `-`, `@` or a blank in front.",
    )
    too_long = serializers.BooleanField(source="is_too_long", help_text="So long that no diff is made.")


class FigureChangeSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(source="either.name")
    dataset = serializers.CharField(source="either.dataset")
    before = FigureSerializer(allow_null=True, help_text="Null: it has no such figure.")
    after = FigureSerializer(allow_null=True)
    difference = serializers.FloatField(
        allow_null=True, help_text="Null: one is missing, or the units differ."
    )
    better = serializers.BooleanField(
        source="is_better", allow_null=True, help_text="Null: unchanged, or nobody told which way is better."
    )


@example(examples.COMPARISON)
class ComparisonSerializer(serializers.Serializer[Any]):
    before = serializers.CharField()
    after = serializers.CharField()
    files = FileChangeSerializer(many=True)
    bytes = serializers.DictField(child=serializers.IntegerField(), help_text="Bytes per kind of change.")
    config = KeyChangeSerializer(many=True, help_text="Only the keys that differ.")
    facts = KeyChangeSerializer(many=True, help_text="Likewise, of `facts`.")
    tokenizer = TokenizerChangeSerializer()
    card = CardChangeSerializer(help_text="The model card, README.md.")
    figures = FigureChangeSerializer(many=True, help_text="What evaluations of either found.")


def comparison_shown(before: Version, after: Version, found: Comparison) -> Any:
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
