"""What files are is told by their bytes; what cannot be told, or could run code, is refused."""

import io
import json
import pickle
import struct
import tarfile
import zipfile

import numpy
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from models_registry.contents import InMemory, check_together, identify
from models_registry.contents import safetensors as ours
from models_registry.contents.reading import Malformed
from models_registry.errors import Refused
from tests.models_registry import builders as b


class Harmful:
    def __reduce__(self):
        return (print, ("this must never run",))


def zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Harmful()))
    return buffer.getvalue()


def tarred() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("../../etc/cron.d/x"))
    return buffer.getvalue()


def polyglot_weights() -> bytes:
    """A valid safetensors file whose tensor data is a ZIP archive: offsets in ZIPs count from the end."""
    data = zipped()
    return b.safetensors({"w": ("U8", [len(data)], data)})


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
    assert identify(path, InMemory(content)).format == expected


HEADER_OVERLAP = json.dumps(
    {
        "a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},
        "b": {"dtype": "U8", "shape": [4], "data_offsets": [2, 6]},
    }
).encode()
ONE = '"w": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}'
HOSTILE: dict[str, tuple[str, bytes, str]] = {
    # name of the case: path, bytes, part of the reason
    "a pickle as weights": ("model.safetensors", pickle.dumps(Harmful(), 4), "Python pickle"),
    "an old pickle as weights": ("model.safetensors", pickle.dumps(Harmful(), 0), "header claims"),
    "a PyTorch checkpoint as weights": ("model.safetensors", zipped(), "ZIP archive"),
    "a program as weights": ("model.safetensors", b"\x7fELF" + b"\0" * 60, "Linux program"),
    "a web page as weights": ("model.safetensors", b"<!doctype html>" * 9, "not valid safetensors"),
    "an LFS pointer as weights": (
        "model.safetensors",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        "git lfs pull",
    ),
    "empty weights": ("model.safetensors", b"", "shorter than"),
    "seven bytes of weights": ("model.safetensors", b"\0" * 7, "shorter than"),
    "a header of 2**63 bytes": ("m.safetensors", struct.pack("<Q", 2**63) + b"{}", "header claims"),
    "a header of 50 MB": ("m.safetensors", struct.pack("<Q", 50 << 20) + b"{}", "at most"),
    "a header beyond the end": ("m.safetensors", struct.pack("<Q", 999) + b"{}", "only 2 follow"),
    "a header with a space first": ("m.safetensors", b.safetensors_of(b" {}"), "begin with '{'"),
    "a header that is no JSON": ("m.safetensors", b.safetensors_of(b"{]"), "not JSON"),
    "a header that is no text": ("m.safetensors", b.safetensors_of(b'{"\xff": 1}'), "not UTF-8"),
    "a header nested a million deep": (
        "m.safetensors",
        b.safetensors_of(b'{"a":' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}"),
        "nested too deeply",
    ),
    "a tensor named twice": (
        "m.safetensors",
        b.safetensors_of(f"{{{ONE}, {ONE}}}".encode(), b"\0"),
        "twice",
    ),
    "overlapping tensors": ("m.safetensors", b.safetensors_of(HEADER_OVERLAP, b"\0" * 6), "overlaps"),
    "a tensor beyond the end": ("m.safetensors", b.safetensors_of(f"{{{ONE}}}".encode()), "cover 1 bytes"),
    "bytes after the last tensor": (
        "m.safetensors",
        b.safetensors_of(f"{{{ONE}}}".encode(), b"\0appended"),
        "cover 1 bytes",
    ),
    "negative offsets": (
        "m.safetensors",
        b.safetensors_of(b'{"w": {"dtype": "U8", "shape": [1], "data_offsets": [-1, 0]}}'),
        "data_offsets",
    ),
    "a shape that overflows": (
        "m.safetensors",
        b.safetensors_of(
            b'{"w": {"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 0]}}'
        ),
        "shape and dtype need",
    ),
    "a huge number in the header": (
        "m.safetensors",
        b.safetensors_of(b'{"w": {"dtype": "U8", "shape": [' + b"9" * 5000 + b'], "data_offsets": [0, 1]}}'),
        "not JSON",
    ),
    "an unknown dtype": (
        "m.safetensors",
        b.safetensors_of(b'{"w": {"dtype": "OBJECT", "shape": [1], "data_offsets": [0, 8]}}', b"\0" * 8),
        "unknown dtype",
    ),
    "metadata that is no text": ("m.safetensors", b.safetensors_of(b'{"__metadata__": {"a": 1}}'), "map of"),
    "weights that are a ZIP as well": ("m.safetensors", polyglot_weights(), "ZIP archive rides in it"),
    "GGUF of another version": ("m.gguf", b.gguf(version=99), "version is 99"),
    "GGUF with a billion tensors": ("m.gguf", b"GGUF" + struct.pack("<IQQ", 3, 10**9, 0), "claims"),
    "GGUF with an endless string": (
        "m.gguf",
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2**62),
        "string of",
    ),
    "GGUF with a bomb of arrays": (
        "m.gguf",
        b.gguf([("a", 9, struct.pack("<IQ", 9, 1) * 40)], []),
        "nested too deeply",
    ),
    "GGUF with an endless array": ("m.gguf", b.gguf([("a", 9, struct.pack("<IQ", 0, 2**60))], []), "array"),
    "GGUF with a tensor beyond the end": (
        "m.gguf",
        b.gguf(tensors=[("w", [1 << 40], 0, 0)]),
        "beyond the end",
    ),
    "GGUF with a crooked offset": ("m.gguf", b.gguf(tensors=[("w", [1], 0, 7)]), "not aligned"),
    "GGUF with a key twice": ("m.gguf", b.gguf([("k", 4, b"\0\0\0\0")] * 2, []), "twice"),
    "GGUF with alignment 0": (
        "m.gguf",
        b.gguf([("general.alignment", 4, struct.pack("<I", 0))], []),
        "alignment",
    ),
    "GGUF cut off": ("m.gguf", b.gguf()[:40], "it ends"),
    "GGUF under another name": ("weights.dat", b.gguf(), "rename it"),
    "ONNX that reads the password file": ("m.onnx", b.onnx(external="../../../etc/passwd"), "'..' part"),
    "ONNX that reads an absolute path": ("m.onnx", b.onnx(external="/etc/passwd"), "absolute"),
    "ONNX that reads outside by a node's constant": (
        "m.onnx",
        b.onnx(
            graph=b.field(
                1, b.field(5, b.field(5, b.field(13, b.field(1, b"location") + b.field(2, b"../x"))))
            )
        ),
        "'..' part",
    ),
    "ONNX without a graph": ("m.onnx", b.field(1, 9), "0 graphs"),
    "ONNX with a foreign field": ("m.onnx", b.onnx() + b.field(99, b"x"), "field 99"),
    "ONNX cut off": ("m.onnx", b.onnx()[:-3], "it ends"),
    "ONNX that is a pickle": ("m.onnx", pickle.dumps(Harmful(), 4), "Python pickle"),
    "text named ONNX": ("m.onnx", b"hello", "not valid ONNX"),
    "a checkpoint": ("pytorch_model.bin", zipped(), "convert it to safetensors"),
    "a bare pickle": ("data.bin", pickle.dumps(Harmful(), 2), "Python pickle"),
    "an old pickle": ("weights.pkl", pickle.dumps(Harmful(), 0), "Python pickle"),
    "a pickle under an innocent name": ("notes.txt", pickle.dumps(Harmful(), 5), "Python pickle"),
    "a pickle as tokenizer": ("tokenizer.model", pickle.dumps(Harmful(), 4), "Python pickle"),
    "modelling code that is a program": ("modeling_evil.py", b"\x7fELF" + b"\0" * 60, "ELF"),
    "modelling code that is a pickle": ("modeling_evil.py", pickle.dumps(Harmful(), 2), "Python pickle"),
    "modelling code that is an archive": ("code/handler.PY", zipped(), "ZIP archive"),
    "modelling code that is no text": ("modeling_evil.py", b"\xff\xfe", "not valid Python"),
    "compiled code": ("x.pyc", b"\xa7\r\r\n" + b"\0" * 20, "program code"),
    "a shell script by name": ("run.sh", b"rm -rf /\n", "program code"),
    "a script by its first line": ("start", b"#!/bin/sh\nrm -rf /\n", "script"),
    "a Windows program": ("readme.txt", b"MZ\x90\x00" + b"\0" * 60, "Windows program"),
    "a macOS program": ("tool", b"\xcf\xfa\xed\xfe" + b"\0" * 60, "macOS program"),
    "a Java class": ("data", b"\xca\xfe\xba\xbe\0\0\0\x34", "Java class"),
    "a WebAssembly program": ("data", b"\0asm\x01\0\0\0", "WebAssembly"),
    "a Keras model": ("weights.h5", b"\x89HDF\r\n\x1a\n" + b"\0" * 40, "HDF5"),
    "a NumPy array": ("data.dat", b"\x93NUMPY\x01\x00", "NumPy"),
    "a tar archive": ("files", tarred(), "tar archive"),
    "a gzip bomb": ("files", b"\x1f\x8b\x08\x00" + b"\0" * 20, "gzip"),
    "a PDF": ("paper.pdf", b"%PDF-1.7\n", "PDF"),
    "a TensorFlow Lite model": ("m.tflite", b"\x1c\0\0\0TFL3" + b"\0" * 20, "TensorFlow Lite"),
    "JSON that does not parse": ("config.json", b"{'a': 1}", "not valid JSON"),
    "JSON nested a thousand deep": ("config.json", b"[" * 1000 + b"]" * 1000, "nested deeper"),
    "JSON nested a million deep": ("config.json", b"[" * 1_000_000 + b"]" * 1_000_000, "nested too deeply"),
    "JSON with a NUL": ("config.json", b'{"a": "\x00"}', "NUL"),
    "JSON in Latin-1": ("config.json", b'{"a": "\xe9"}', "not UTF-8"),
    "JSON with a giant number": ("config.json", b'{"a": ' + b"9" * 5000 + b"}", "not valid JSON"),
    "a picture with an archive behind it": ("logo.png", b.PNG + zipped(), "ZIP archive rides"),
    "a picture with a program behind it": ("logo.png", b.PNG + b"\x7fELF", "follows its end"),
    "a picture without an end": ("logo.png", b.PNG[:-12], "no end chunk"),
    "text named as a picture": ("logo.png", b"hello", "no picture"),
    "a JPEG named PNG": ("logo.png", b"\xff\xd8\xff\xe0\xff\xd9", "content is jpeg"),
    "a JPEG with something behind it": ("a.jpg", b"\xff\xd8\xff\xe0\xff\xd9evil", "follows its end"),
    "a SentencePiece with a foreign field": ("tokenizer.model", b.field(9, b"\xff"), "not valid text"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_is_broken_or_could_run_code_is_refused_with_the_reason(case: str) -> None:
    path, content, reason = HOSTILE[case]
    with pytest.raises(Refused) as refusal:
        identify(path, InMemory(content))
    assert refusal.value.path == path
    assert reason in refusal.value.reason


def test_json_of_too_many_bytes_is_refused_before_it_is_read() -> None:
    class Vast:
        size = 2 << 30

        def read_at(self, offset: int, length: int) -> bytes:
            assert length <= 512, "it was read"
            return b"a" * length

    with pytest.raises(Refused, match="at most"):
        identify("tokenizer.json", Vast())


def test_unknown_bytes_pass_only_as_the_external_data_of_an_onnx_file_beside_them() -> None:
    model = identify("onnx/model.onnx", InMemory(b.onnx(external="model.onnx_data")))
    data = identify("onnx/model.onnx_data", InMemory(b"\xff\x00" * 9))
    refusals, settled = check_together([model, data])
    assert refusals == []
    assert [file.format for file in settled] == ["onnx", "onnx-data"]
    refusals, _ = check_together([identify("x.dat", InMemory(b"\xff\x00" * 9))])
    assert "none of safetensors" in refusals[0].reason
    refusals, _ = check_together([model])
    assert "onnx/model.onnx_data" in refusals[0].reason


def test_a_shard_index_that_names_a_missing_file_is_refused() -> None:
    index = identify(
        "model.safetensors.index.json",
        InMemory(b'{"weight_map": {"a": "model-1.safetensors", "b": "../model-2.safetensors"}}'),
    )
    shard = identify("model-1.safetensors", InMemory(b.weights()))
    refusals, _ = check_together([index, shard])
    assert [str(refusal) for refusal in refusals] == [
        "model.safetensors.index.json: it names '../model-2.safetensors', which is not there"
    ]
    broken = identify("model.safetensors.index.json", InMemory(b"[]"))
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
        tensors = ours.parse(InMemory(content))
    except Malformed:
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
    found = ours.parse(InMemory(safetensors.numpy.save(arrays)))
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
        found = identify(path, InMemory(content)).format
    except Refused as refusal:
        found = refusal.reason
    assert found
