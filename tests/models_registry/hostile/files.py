"""Files that are broken, that run code, or that are something else than they say."""

import bz2
import io
import json
import lzma
import pickle
import struct
import tarfile
import zipfile

from tests.models_registry import builders as b


class Harmful:
    def __reduce__(self):
        return (print, ("this must never run",))


def zipped(name: str = "archive/data.pkl") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, pickle.dumps(Harmful()))
    return buffer.getvalue()


def bomb() -> bytes:
    """A thousand times as large as it looks."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb", bytes(1 << 20))
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


HEADER_OVERLAP = json.dumps(
    {
        "a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},
        "b": {"dtype": "U8", "shape": [4], "data_offsets": [2, 6]},
    }
).encode()
ONE = '"w": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}'
FILES: dict[str, tuple[str, bytes, str]] = {
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
    "an archive that unpacks upwards": ("files.dat", zipped("../../../etc/cron.d/x"), "ZIP archive"),
    "a ZIP bomb": ("files.dat", bomb(), "ZIP archive"),
    "an empty ZIP archive": ("files.dat", b"PK\x05\x06" + b"\0" * 18, "ZIP archive"),
    "a bzip2 bomb": ("files.dat", bz2.compress(bytes(1 << 20)), "bzip2"),
    "an xz bomb": ("files.dat", lzma.compress(bytes(1 << 20)), "xz"),
    "a zstd bomb": ("files.dat", b"\x28\xb5\x2f\xfd" + b"\0" * 20, "zstd"),
    "a 7-Zip archive": ("files.dat", b"7z\xbc\xaf\x27\x1c" + b"\0" * 20, "7-Zip"),
    "a RAR archive": ("files.dat", b"Rar!\x1a\x07\x01\x00", "RAR"),
    "a database": ("files.dat", b"SQLite format 3\x00" + b"\0" * 90, "database"),
    "a Linux program as text": ("notes.txt", b"\x7fELF\x02\x01\x01" + b"\0" * 60, "Linux program"),
    "a pickle with an archive behind it": ("notes.txt", pickle.dumps({}, 4) + zipped(), "Python pickle"),
    "text with an archive behind it": ("tokenizer.model", b"\x0a\x01" + zipped(), "not valid text"),
    "code with an archive behind it": ("modeling_x.py", b"x = 1\n" + zipped(), "not valid Python"),
    "GGUF with an archive behind it": ("m.gguf", b.gguf() + zipped(), "ZIP archive rides in it"),
    "a SVG with a script": ("logo.svg", b"<svg><script>alert(1)</script></svg>", "can carry scripts"),
    "a SVG under another name": ("logo.txt", b" \n<SVG onload=alert(1)>", "can carry scripts"),
    "a web page": ("report.html", b"<p>hello", "can carry scripts"),
    "a web page under another name": ("notes.txt", b"<!DOCTYPE html><script>", "can carry scripts"),
    "a config of 10 MB": ("config.json", b'{"a": "' + b"a" * 10_000_000 + b'"}', "a config may have at most"),
    "a config in UTF-16": ("config.json", '{"a": 1}'.encode("utf-16"), "NUL"),
    "half a character": ("README.md", b"# Gr\xc3", "none of safetensors"),
    "a surrogate in UTF-8": ("vocab.txt", b"\xed\xa0\x80", "none of safetensors"),
    "an overlong slash in UTF-8": ("vocab.txt", b"..\xc0\xaf", "none of safetensors"),
    "a negative shape": (
        "m.safetensors",
        b.safetensors_of(b'{"w": {"dtype": "U8", "shape": [-1], "data_offsets": [0, 1]}}', b"\0"),
        "no valid shape",
    ),
    "offsets that run backwards": (
        "m.safetensors",
        b.safetensors_of(b'{"w": {"dtype": "U8", "shape": [1], "data_offsets": [1, 0]}}', b"\0"),
        "shape and dtype need",
    ),
    "GGUF whose tensors hide the end": ("m.gguf", b.gguf(tensors=[("w", [2**63], 0, 0)]), "cannot have"),
    "GGUF with a tensor twice": ("m.gguf", b.gguf(tensors=[("w", [1], 0, 0), ("w", [1], 0, 0)]), "twice"),
    "ONNX that reads by a backslash": ("m.onnx", b.onnx(external="..\\..\\x"), "backslash"),
    "ONNX that reads a NUL": ("m.onnx", b.onnx(external="x\x00.txt"), "control"),
    "ONNX from the future": ("m.onnx", b.onnx(ir_version=9_999), "IR version"),
    "ONNX whose weights are not there": ("m.onnx", b.onnx(external="weights.bin"), "which is not there"),
    "an index of weights that are elsewhere": (
        "model.safetensors.index.json",
        b'{"weight_map": {"a": "../../other.safetensors"}}',
        "which is not there",
    ),
    "an index that is no index": ("model.safetensors.index.json", b"[]", "no 'weight_map'"),
}
"""By name of the case: path, bytes, part of the reason."""
