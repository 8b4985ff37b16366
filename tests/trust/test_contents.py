"""What files are is told by their bytes; what cannot be told, or could run code, is refused."""

import json

import numpy
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from model_store.errors import FileRefused
from model_store.reading import InMemoryContent, MalformedContent
from tests.models_registry import builders as b
from trust.formats import safetensors as ours
from trust.formats.identification import check_together, identify

ACCEPTED = {
    "model.safetensors": (b.weights(), "safetensors"),
    "empty.safetensors": (b.safetensors_of(b"{}"), "safetensors"),
    "padded.safetensors": (b.safetensors_of(b"{}      "), "safetensors"),
    "scalar.safetensors": (b.safetensors({"s": ("F64", [], b"\0" * 8)}), "safetensors"),
    "hollow.safetensors": (b.safetensors({"s": ("F64", [0, 7], b"")}), "safetensors"),
    "four-bit.safetensors": (b.safetensors({"s": ("F4", [2, 2], b"\0\0")}), "safetensors"),
    "model.gguf": (b.gguf(), "gguf"),
    "old.gguf": (b.gguf(version=2), "gguf"),
    "quantised.gguf": (b.gguf(tensors=[("w", [256, 2], 14, 0)], data=b"\0" * 420), "gguf"),
    "model.onnx": (b.onnx(), "onnx"),
    "external.onnx": (b.onnx(external="model.onnx_data"), "onnx"),
    "tokenizer.model": (b.sentencepiece(), "sentencepiece"),
    "spiece.model": (b.sentencepiece(2), "sentencepiece"),
    "llama3/tokenizer.model": (b"IQ== 0\nIg== 1\n", "text"),
    "config.json": (b'{"a": [1, 2, {"b": NaN}], "inf": Infinity}', "json"),
    "bom.json": (b'\xef\xbb\xbf{"a": 1}', "json"),
    "README.md": ("# Grüße\n".encode(), "text"),
    "empty.txt": (b"", "text"),
    "merges.txt": (b"#version: 0.2\nt h\n", "text"),
    "logo.png": (b.PNG, "png"),
    "chart.jpg": (b"\xff\xd8\xff\xe0" + b"\0" * 20 + b"\xff\xd9", "jpeg"),
    "weights.onnx_data": (b"\x00\x01\x02\xff" * 10, "raw"),
}


@pytest.mark.parametrize("path", ACCEPTED)
def test_data_formats_are_recognised_by_their_bytes(path: str) -> None:
    content, expected = ACCEPTED[path]
    assert identify(path, InMemoryContent(content)).format == expected


def test_json_of_too_many_bytes_is_refused_before_it_is_read() -> None:
    class Vast:
        size = 2 << 30

        def read_at(self, offset: int, length: int) -> bytes:
            assert length <= 512, "it was read"
            return b"a" * length

    with pytest.raises(FileRefused, match="at most"):
        identify("tokenizer.json", Vast())


def test_unknown_bytes_pass_only_as_the_external_data_of_an_onnx_file_beside_them() -> None:
    model = identify("onnx/model.onnx", InMemoryContent(b.onnx(external="model.onnx_data")))
    data = identify("onnx/model.onnx_data", InMemoryContent(b"\xff\x00" * 9))
    refusals, settled = check_together([model, data])
    assert refusals == []
    assert [file.format for file in settled] == ["onnx", "onnx-data"]
    refusals, _ = check_together([identify("x.dat", InMemoryContent(b"\xff\x00" * 9))])
    assert "none of safetensors" in refusals[0].reason
    refusals, _ = check_together([model])
    assert "onnx/model.onnx_data" in refusals[0].reason


def test_a_shard_index_that_names_a_missing_file_is_refused() -> None:
    index = identify(
        "model.safetensors.index.json",
        InMemoryContent(b'{"weight_map": {"a": "model-1.safetensors", "b": "../model-2.safetensors"}}'),
    )
    shard = identify("model-1.safetensors", InMemoryContent(b.weights()))
    refusals, _ = check_together([index, shard])
    assert [str(refusal) for refusal in refusals] == [
        "model.safetensors.index.json: it names '../model-2.safetensors', which is not there"
    ]
    broken = identify("model.safetensors.index.json", InMemoryContent(b"[]"))
    assert "weight_map" in check_together([broken])[0][0].reason


tensor_names = st.text(st.characters(blacklist_categories=["Cs"]), max_size=5)
described = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["U8", "F32", "F4", "BF16", "BOOL", "NOPE"]),
        "shape": st.lists(st.integers(-1, 5), max_size=3),
        "data_offsets": st.lists(st.integers(-2, 12), min_size=1, max_size=3),
    }
)
well_formed = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["U8", "F32", "F4"]),
        "shape": st.lists(st.integers(0, 2), max_size=2),
    }
)


@st.composite
def plausible_files(draw) -> bytes:
    """Files that are nearly right: laid out correctly, then one thing is changed."""
    header, end = {}, 0
    for name, tensor in draw(st.dictionaries(tensor_names, well_formed, max_size=4)).items():
        bits = ours.BITS[tensor["dtype"]]
        for size in tensor["shape"]:
            bits *= size
        header[name] = {**tensor, "data_offsets": [end, end + -(-bits // 8)]}
        end += -(-bits // 8)
    if draw(st.booleans()):
        header[draw(tensor_names)] = draw(described)
    data = b"\0" * max(0, end + draw(st.sampled_from([0, 0, 0, 1, -1])))
    text = json.dumps(header, ensure_ascii=draw(st.booleans())).encode()
    return b.safetensors_of(text + b" " * draw(st.integers(0, 3)), data)


@given(st.one_of(plausible_files(), st.binary(max_size=200), st.binary(max_size=64).map(b.safetensors_of)))
def test_whatever_we_take_for_safetensors_its_own_library_takes_too(content: bytes) -> None:
    try:
        tensors = ours.parse(InMemoryContent(content))
    except MalformedContent:
        return
    assert len(safetensors.deserialize(content)) == tensors.count


@given(
    st.dictionaries(
        tensor_names.filter(lambda name: name != "__metadata__"),
        st.tuples(
            st.sampled_from(["uint8", "int16", "float32", "float64", "bool"]),
            st.lists(st.integers(0, 3), max_size=3),
        ),
        max_size=4,
    )
)
def test_what_the_library_of_safetensors_writes_we_read(tensors: dict) -> None:
    arrays = {name: numpy.zeros(shape, dtype) for name, (dtype, shape) in tensors.items()}
    found = ours.parse(InMemoryContent(safetensors.numpy.save(arrays)))
    assert (found.count, found.elements) == (len(arrays), sum(array.size for array in arrays.values()))


spoilt = st.tuples(
    st.sampled_from([b.gguf(), b.onnx(), b.sentencepiece(), b.weights(), b.PNG]),
    st.integers(0, 400),
    st.binary(max_size=4),
).map(lambda parts: parts[0][: parts[1]] + parts[2] + parts[0][parts[1] + len(parts[2]) :])


@given(
    st.sampled_from(["m.gguf", "m.onnx", "tokenizer.model", "a.json", "x", "m.safetensors", "a.png"]),
    st.one_of(
        st.binary(max_size=300), st.binary(max_size=200).map(lambda tail: b"GGUF\x03\0\0\0" + tail), spoilt
    ),
)
def test_no_bytes_make_the_judgement_itself_fail(path: str, content: bytes) -> None:
    try:
        found = identify(path, InMemoryContent(content)).format
    except FileRefused as refusal:
        found = refusal.reason
    assert found
