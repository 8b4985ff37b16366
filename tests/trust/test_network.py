"""The shape of a network and its memory, from a config or a GGUF header; unknown stays unknown."""

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_store.errors import FileRefused
from model_store.reading import InMemoryContent, MalformedContent
from tests.models_registry import builders as b
from trust.formats.identification import identify
from trust.formats.network import kv_cache_bytes, network_of_config
from trust.formats.safetensors import parse as parse_safetensors
from trust.formats.summary import facts_of

LLAMA_3_1_8B = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "vocab_size": 128256,
    "rope_theta": 500000.0,
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
    "torch_dtype": "bfloat16",
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    [
        *LLAMA_3_1_8B, "head_dim", "layer_types", "text_config", "quantization_config", "multi_query",
        "dtype", "kv_lora_rank", "rope_parameters", "is_encoder_decoder",
    ]
)  # fmt: skip


def details(files: dict[str, bytes]) -> dict[str, Any]:
    return facts_of([identify(path, InMemoryContent(content)) for path, content in files.items()]).details


def of_config(**changes: Any) -> dict[str, Any]:
    config = {key: value for key, value in {**LLAMA_3_1_8B, **changes}.items() if value is not None}
    return details({"config.json": json.dumps(config).encode(), "model.safetensors": b.weights(64)})


def test_a_llama_is_told_whole() -> None:
    assert of_config() == {
        "format": "safetensors",
        "tensors": 1,
        "weights": [{"dtype": "F32", "elements": 64, "bytes": 256}],
        "layers": 32,
        "hidden_size": 4096,
        "attention_heads": 32,
        "kv_heads": 8,
        "head_dim": 128,
        "vocabulary": 128256,
        "rope": {"theta": 500000.0, "scaling": "llama3", "factor": 8.0, "original_context_length": 8192},
        "quantization": None,
        "memory": {
            "weights_bytes": 256,
            "kv_cache_bytes_per_1k_tokens": 131_072_000,
            "kv_cache_dtype": "BF16",
        },
        "unknown": [],
    }


def test_the_cache_of_opt_13b_is_what_the_paper_of_paged_attention_says() -> None:
    config = {
        "architectures": ["OPTForCausalLM"],
        "hidden_size": 5120,
        "num_hidden_layers": 40,
        "num_attention_heads": 40,
        "torch_dtype": "float16",
    }
    assert kv_cache_bytes(network_of_config(config, dtype="F16")) == (1_000 * 800 * 1024, "")


def test_a_gguf_tells_the_same_of_its_header() -> None:
    keys = [
        ("general.architecture", 8, b.gguf_string("llama")),
        ("general.file_type", 4, b.u32(15)),
        ("llama.block_count", 4, b.u32(32)),
        ("llama.context_length", 4, b.u32(131072)),
        ("llama.embedding_length", 4, b.u32(4096)),
        ("llama.attention.head_count", 4, b.u32(32)),
        ("llama.attention.head_count_kv", 4, b.u32(8)),
        ("llama.rope.freq_base", 6, struct.pack("<f", 500000.0)),
        ("tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, 2) + b.gguf_string("a") + b.gguf_string("b")),
    ]
    tensors = [("blk.0.attn_q.weight", [256, 4], 12, 0), ("output_norm.weight", [8], 0, 576)]
    content = b.gguf(keys, tensors, data=b"\0" * 640)
    facts = facts_of([identify("model.gguf", InMemoryContent(content))])
    assert (facts.parameters, facts.quantization) == (1032, "Q4_K_M")
    found = facts.details
    assert found["weights"] == [
        {"dtype": "Q4_K", "elements": 1024, "bytes": 576},
        {"dtype": "F32", "elements": 8, "bytes": 32},
    ]
    assert found["memory"] == {
        "weights_bytes": 608,
        "kv_cache_bytes_per_1k_tokens": 131_072_000,
        "kv_cache_dtype": "F16",
    }
    assert (found["layers"], found["kv_heads"], found["head_dim"], found["vocabulary"]) == (32, 8, 128, 2)
    assert found["rope"]["theta"] == 500000.0
    assert found["unknown"] == []


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"num_hidden_layers": None}, "the number of layers"),
        ({"num_attention_heads": "many", "num_key_value_heads": None}, "the number of KV heads, elements"),
        ({"is_encoder_decoder": True}, "encoder-decoder"),
        ({"architectures": ["BertForMaskedLM"]}, "known to generate text"),
        ({"kv_lora_rank": 512}, "compressed"),
        ({"full_attention_interval": 4}, "not all of its layers"),
        ({"num_kv_shared_layers": 10, "layer_types": ["full_attention"] * 32}, "not all of its layers"),
        ({"auto_map": {"AutoModel": "code.Model"}, "num_key_value_heads": None}, "KV heads"),
        ({"num_hidden_layers": 2**31 - 1, "head_dim": 2**31 - 1}, "absurd"),
    ],
)
def test_a_cache_that_cannot_be_told_is_unknown_and_says_why(changes, why) -> None:
    found = of_config(**changes)
    assert found["memory"]["kv_cache_bytes_per_1k_tokens"] is None
    assert [sentence for sentence in found["unknown"] if why in sentence]


def test_only_layers_with_attention_keep_keys_and_values() -> None:
    types = ["linear_attention", "full_attention", "sliding_attention", "linear_attention"] * 8
    found = of_config(layer_types=types)
    assert found["layers"] == 32
    assert found["memory"]["kv_cache_bytes_per_1k_tokens"] == 131_072_000 // 2


def test_the_language_part_of_a_model_for_pictures_counts() -> None:
    config = {"architectures": ["LlavaForConditionalGeneration"], "text_config": LLAMA_3_1_8B}
    found = details({"config.json": json.dumps(config).encode(), "model.safetensors": b.weights(8)})
    assert (found["layers"], found["kv_heads"]) == (32, 8)
    assert found["memory"]["kv_cache_bytes_per_1k_tokens"] == 131_072_000


def test_heads_that_share_one_key_and_value_count_once() -> None:
    assert of_config(multi_query=True)["kv_heads"] == 1
    assert of_config(num_key_value_heads=None)["kv_heads"] == 32
    assert of_config(num_key_value_heads=None, attn_config={"kv_n_heads": 8})["kv_heads"] == 8


def test_packed_weights_count_as_what_they_are_unpacked() -> None:
    packed = b.safetensors(
        {
            "a.qweight": ("I32", [4, 8], b"\1" * 128),
            "a.qzeros": ("I32", [2], b"\1" * 8),
            "a.scales": ("F16", [8], b"\1" * 16),
            "norm.weight": ("F16", [16], b"\1" * 32),
        }
    )

    def facts(**quantization: Any) -> Any:
        config = {**LLAMA_3_1_8B, "quantization_config": {"quant_method": "gptq", **quantization}}
        files = {"config.json": json.dumps(config).encode(), "model.safetensors": packed}
        return facts_of([identify(path, InMemoryContent(content)) for path, content in files.items()])

    known = facts(bits=4, group_size=128)
    assert known.parameters == 4 * 8 * 8 + 16
    assert known.details["quantization"] == {"method": "gptq", "bits": 4, "group_size": 128}
    assert known.details["memory"]["weights_bytes"] == 128 + 8 + 16 + 32
    assert facts().parameters is None


def test_without_weights_their_memory_is_unknown() -> None:
    found = details({"config.json": json.dumps(LLAMA_3_1_8B).encode()})
    assert found["memory"]["weights_bytes"] is None
    assert "size of the weights" in found["unknown"][0]


def test_a_gguf_with_a_type_that_nobody_knows_has_weights_of_unknown_size() -> None:
    found = details({"model.gguf": b.gguf(tensors=[("w", [2**62], 777, 0)])})
    assert found["weights"] == [{"dtype": "type 777", "elements": None, "bytes": None}]
    assert found["memory"]["weights_bytes"] is None


@given(changes=st.dictionaries(KEYS, JSON, max_size=5))
def test_no_config_makes_it_fail_or_say_what_json_cannot_hold(changes) -> None:
    try:
        found = of_config(**changes)
    except FileRefused:
        return
    json.dumps(found, allow_nan=False)
    cache = found["memory"]["kv_cache_bytes_per_1k_tokens"]
    assert cache is None or 0 < cache < 2**53
    assert (cache is None) == any("KV cache" in sentence for sentence in found["unknown"])


@given(depth=st.integers(min_value=101, max_value=5_000))
def test_a_config_nested_too_deeply_is_refused(depth: int) -> None:
    nested = b'{"text_config":' * depth + b"1" + b"}" * depth
    with pytest.raises(FileRefused, match="nested"):
        identify("config.json", InMemoryContent(nested))


@given(content=st.binary(max_size=200), cut=st.integers(min_value=0, max_value=400))
def test_random_bytes_and_cut_headers_are_refused_with_a_reason(content: bytes, cut: int) -> None:
    whole = b.gguf()
    for path, bad in (
        ("m.gguf", b"GGUF" + content),
        ("m.gguf", whole[: cut % len(whole)]),
        ("m.safetensors", content),
        ("m.safetensors", b.weights(8)[: cut % len(b.weights(8))]),
    ):
        with pytest.raises(FileRefused, match="it is"):
            identify(path, InMemoryContent(bad))


@given(header=JSON)
def test_any_json_as_a_safetensors_header_is_understood_or_refused(header) -> None:
    content = b.safetensors_of(json.dumps({"w": header}).encode())
    with pytest.raises(MalformedContent):
        parse_safetensors(InMemoryContent(content))
