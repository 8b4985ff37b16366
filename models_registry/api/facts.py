"""What is told of a version's network, from its config and the headers of its weights."""

from typing import Any

from rest_framework import serializers


class RopeSerializer(serializers.Serializer[Any]):
    theta = serializers.FloatField(allow_null=True)
    scaling = serializers.CharField(help_text="Such as `llama3` or `yarn`; empty: none.")
    factor = serializers.FloatField(allow_null=True)
    original_context_length = serializers.IntegerField(allow_null=True)


class QuantizationSerializer(serializers.Serializer[Any]):
    method = serializers.CharField()
    bits = serializers.IntegerField(allow_null=True, help_text="Bits per weight.")
    group_size = serializers.IntegerField(allow_null=True, help_text="Group size.")


class TensorsOfDtypeSerializer(serializers.Serializer[Any]):
    dtype = serializers.CharField()
    elements = serializers.IntegerField(allow_null=True)
    bytes = serializers.IntegerField(allow_null=True)


class MemorySerializer(serializers.Serializer[Any]):
    weights_bytes = serializers.IntegerField(
        allow_null=True, help_text="Sum over all tensors of elements x bits / 8, as stored."
    )
    kv_cache_bytes_per_1k_tokens = serializers.IntegerField(
        allow_null=True, help_text="1,000 x 2 x layers x kv_heads x head_dim x bytes of `kv_cache_dtype`."
    )
    kv_cache_dtype = serializers.CharField()


class FactsSerializer(serializers.Serializer[Any]):
    """Facts from the headers of the weights and the config; null: unknown."""

    format = serializers.CharField(help_text="Weight format: `safetensors`, `gguf`, `onnx` or empty.")
    tensors = serializers.IntegerField()
    weights = TensorsOfDtypeSerializer(many=True, help_text="Parameters by dtype, the most frequent first.")
    layers = serializers.IntegerField(allow_null=True)
    hidden_size = serializers.IntegerField(allow_null=True)
    attention_heads = serializers.IntegerField(allow_null=True)
    kv_heads = serializers.IntegerField(allow_null=True)
    head_dim = serializers.IntegerField(allow_null=True)
    vocabulary = serializers.IntegerField(allow_null=True)
    rope = RopeSerializer(allow_null=True)
    quantization = QuantizationSerializer(allow_null=True)
    memory = MemorySerializer(help_text="GPU memory, estimated.")
    unknown = serializers.ListField(
        child=serializers.CharField(), help_text="Reasons why parts of `memory` are null."
    )
