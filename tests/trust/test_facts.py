"""A version's architecture, parameters, context and dtype come from its own files."""

import json
import struct

import pytest

from model_store.errors import FileRefused
from model_store.reading import InMemoryContent
from tests.models_registry import builders as b
from trust.formats.identification import identify
from trust.formats.summary import facts_of, storable


def identified(files: dict[str, bytes]) -> list:
    return [identify(path, InMemoryContent(content)) for path, content in files.items()]


def test_a_transformers_model_is_summed_up_from_config_and_weights() -> None:
    facts = facts_of(identified(b.model_files()))
    assert (facts.architecture, facts.parameters, facts.context_length, facts.dtype) == (
        "LlamaForCausalLM",
        64,
        512,
        "F32",
    )
    assert facts.config["num_hidden_layers"] == 2
    assert facts.notes == ()


def test_shards_count_by_the_index_and_a_second_copy_does_not() -> None:
    files = {
        "model-1.safetensors": b.weights(10),
        "model-2.safetensors": b.weights(20),
        "consolidated.safetensors": b.weights(30),
        "model.safetensors.index.json": json.dumps(
            {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
        ).encode(),
    }
    assert facts_of(identified(files)).parameters == 30


def test_a_gguf_tells_its_architecture_context_and_quantisation() -> None:
    keys = [
        ("general.architecture", 8, b.gguf_string("qwen2")),
        ("qwen2.context_length", 4, struct.pack("<I", 32768)),
    ]
    content = b.gguf(keys, [("w", [256, 4], 14, 0)], data=b"\0" * 840)
    facts = facts_of(identified({"model-q6_k.gguf": content}))
    assert (facts.architecture, facts.parameters, facts.context_length) == ("qwen2", 1024, 32768)
    assert (facts.dtype, facts.quantization) == ("Q6_K", "Q6_K")
    assert facts.config["qwen2.context_length"] == 32768


def test_quantisation_is_told() -> None:
    config = {**b.CONFIG, "quantization_config": {"quant_method": "gptq"}}
    facts = facts_of(identified({**b.model_files(), "config.json": json.dumps(config).encode()}))
    assert facts.quantization == "gptq"


def test_a_config_that_lies_about_its_types_is_no_trouble() -> None:
    config = {"architectures": {"a": 1}, "max_position_embeddings": "many", "quantization_config": 7}
    facts = facts_of(identified({"config.json": json.dumps(config).encode()}))
    assert (facts.architecture, facts.context_length, facts.quantization) == ("", None, "")
    assert facts.parameters is None
    assert "No weights: no safetensors, GGUF or ONNX file." in facts.notes


def test_a_context_length_inside_the_text_config_is_found() -> None:
    config = {"model_type": "gemma3", "text_config": {"max_position_embeddings": 131072}}
    facts = facts_of(identified({"config.json": json.dumps(config).encode()}))
    assert (facts.architecture, facts.context_length) == ("gemma3", 131072)


def test_what_databases_choke_on_is_made_storable() -> None:
    hostile = {"a\x00": ["\ud800", float("nan"), float("-inf"), 10**30], "long": "x" * 10_000}
    cleaned = storable(hostile)
    assert cleaned["a\ufffd"] == ["?", "nan", "-inf", str(10**30)]
    assert len(cleaned["long"]) == 4000
    json.dumps(cleaned, allow_nan=False).encode()


@pytest.mark.parametrize("beside", ["1", "NaN"])
@pytest.mark.parametrize(
    "number", ["99999999999999999999", "-99999999999999999999", "-3.4028234663852886e+38"]
)
def test_a_number_beyond_64_bits_is_no_fact_and_kept_as_text(number: str, beside: str) -> None:
    content = (
        f'{{"max_position_embeddings": {number}, "num_hidden_layers": {number}, "deep": [{number}, {beside}],'
        f' "quantization_config": {{"quant_method": "gptq", "bits": {number}, "group_size": {number}}}}}'
    )
    facts = facts_of(identified({"config.json": content.encode()}))
    assert facts.context_length is facts.details["layers"] is None
    assert facts.details["quantization"] == {"method": "gptq", "bits": None, "group_size": None}
    kept = [facts.config["num_hidden_layers"], facts.config["deep"][0]]
    assert [(type(one), float(one)) for one in kept] == [(str, float(number))] * 2


@pytest.mark.parametrize("beside", [b"", b', "nan": NaN'])
def test_a_number_of_thousands_of_digits_is_refused_in_a_sentence(beside: bytes) -> None:
    content = b'{"vocab_size": ' + b"9" * 5000 + beside + b"}"
    with pytest.raises(FileRefused, match=r"a number of 5,000 digits; 1,000 are allowed"):
        identify("config.json", InMemoryContent(content))


def test_a_config_of_more_than_64_kib_is_not_kept() -> None:
    config = {"labels": ["x" * 100] * 1000, "model_type": "bert"}
    facts = facts_of(identified({"config.json": json.dumps(config).encode()}))
    assert facts.config == {}
    assert facts.architecture == "bert"
