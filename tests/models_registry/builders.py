"""Small real files of every kind, and directories in Hugging Face layout made of them."""

import hashlib
import json
import struct
from pathlib import Path


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def safetensors(tensors: dict[str, tuple[str, list[int], bytes]], metadata: dict | None = None) -> bytes:
    header: dict = {"__metadata__": metadata} if metadata else {}
    data = b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    return safetensors_of(json.dumps(header).encode(), data)


def safetensors_of(header: bytes, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header)) + header + data


def weights(elements: int = 8, fill: bytes = b"\x01") -> bytes:
    return safetensors({"w": ("F32", [elements], fill * (4 * elements))}, {"format": "pt"})


def gguf_string(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def gguf(
    keys: list[tuple[str, int, bytes]] | None = None,
    tensors: list[tuple[str, list[int], int, int]] | None = None,
    *,
    version: int = 3,
    data: bytes | None = None,
) -> bytes:
    if keys is None:
        keys = [
            ("general.architecture", 8, gguf_string("llama")),
            ("llama.context_length", 4, struct.pack("<I", 2048)),
            ("tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, 2) + gguf_string("a") + gguf_string("b")),
        ]
    tensors = [("token_embd.weight", [4, 2], 0, 0)] if tensors is None else tensors
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys))
    for name, kind, value in keys:
        head += gguf_string(name) + struct.pack("<I", kind) + value
    for name, shape, kind, offset in tensors:
        head += gguf_string(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        head += struct.pack("<IQ", kind, offset)
    head += b"\x00" * (-len(head) % 32)
    return head + (b"\x00" * 32 if data is None else data)


def varint(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number: int, payload: bytes | int) -> bytes:
    if isinstance(payload, int):
        return varint(number << 3) + varint(payload)
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def onnx(*, external: str | None = None, graph: bytes | None = None, ir_version: int = 9) -> bytes:
    tensor = field(1, b"\x02") + field(2, 1) + field(8, b"weight")
    if external is not None:
        tensor += field(13, field(1, b"location") + field(2, external.encode())) + field(14, 1)
    graph = field(2, b"main") + field(5, tensor) if graph is None else graph
    return field(1, ir_version) + field(2, b"tests") + field(7, graph) + field(8, field(2, 17))


def sentencepiece(pieces: int = 3) -> bytes:
    one = field(1, b"\xe2\x96\x81a") + b"\x15" + struct.pack("<f", -1.5)
    return b"".join(field(1, one) for _ in range(pieces)) + field(2, field(4, pieces))


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


PNG = (
    b"\x89PNG\r\n\x1a\n" + b"\x00\x00\x00\rIHDR" + b"\x00" * 17 + b"\x00\x00\x00\x00IEND\xaeB`\x82"
)  # fmt: skip

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 512,
    "vocab_size": 259,
}


def model_files(fill: bytes = b"\x01") -> dict[str, bytes]:
    return {
        "config.json": json.dumps(CONFIG, indent=2).encode(),
        "model.safetensors": weights(64, fill),
        "tokenizer.json": b'{"version": "1.0", "model": {"type": "BPE"}}',
        "README.md": b"---\nlicense: apache-2.0\n---\n# A small model\n",
        ".gitattributes": b"*.safetensors filter=lfs\n",
    }


def write(directory: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return directory


def model_directory(directory: Path, fill: bytes = b"\x01") -> Path:
    return write(directory, model_files(fill))
