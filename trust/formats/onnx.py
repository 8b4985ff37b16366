"""ONNX: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto, read without any protobuf library.

The paths of external data are the part that has hurt others (CVE-2022-25882, CVE-2024-27318: `../` in a
location made the loader read any file), so every tensor of every graph, subgraph and function is visited for
them.
"""

from model_store.errors import FileRefused
from model_store.paths import check_file_path
from model_store.reading import Content, MalformedContent
from trust.formats import protobuf

# ModelProto's fields: wire type by number.
_MODEL = {
    1: protobuf.VARINT, 2: protobuf.LENGTH, 3: protobuf.LENGTH, 4: protobuf.LENGTH, 5: protobuf.VARINT,
    6: protobuf.LENGTH, 7: protobuf.LENGTH, 8: protobuf.LENGTH, 14: protobuf.LENGTH, 20: protobuf.LENGTH,
    25: protobuf.LENGTH, 26: protobuf.LENGTH,
}  # fmt: skip
# Where tensors can hide, per message: field number -> kind of the message in it.
_INSIDE = {
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "function": {7: "node", 11: "attribute"},
    "training": {1: "graph", 2: "graph"},
}
_MODEL_PARTS = {7: "graph", 20: "training", 25: "function"}
_TENSOR_EXTERNAL_DATA = 13
MAX_NESTING = 64
MAX_IR_VERSION = 64


def external_data_of(content: Content) -> frozenset[str]:
    """Paths of the files that hold its tensors, relative to its directory; Malformed when it is no ModelProto
    with a graph. Refused (a path that leaves the version) is passed on.
    """
    ir_version, graphs = 0, 0
    external: set[str] = set()
    for field in protobuf.fields(content):
        if _MODEL.get(field.number) != field.wire:
            raise MalformedContent(f"it has a field {field.number} that an ONNX model does not have")
        if field.number == 1:
            ir_version = field.value
        elif field.number in _MODEL_PARTS:
            graphs += field.number == 7
            external |= _external_data(content, _MODEL_PARTS[field.number], field)
    if not 1 <= ir_version <= MAX_IR_VERSION:
        raise MalformedContent(f"its IR version is {ir_version}")
    if graphs != 1:
        raise MalformedContent(f"it has {graphs} graphs instead of one")
    return frozenset(external)


def _external_data(content: Content, kind: str, outer: protobuf.ProtobufField) -> set[str]:
    found: set[str] = set()
    waiting = [(kind, outer.start, outer.end, 0)]
    while waiting:
        kind, start, end, depth = waiting.pop()
        if depth > MAX_NESTING:
            raise MalformedContent("its graphs are nested too deeply")
        for field in protobuf.fields(content, start, end):
            if kind == "tensor":
                if field.number == _TENSOR_EXTERNAL_DATA:
                    found |= _location(content, field)
                continue
            inner = _INSIDE[kind].get(field.number)
            if inner:
                if field.wire != protobuf.LENGTH:
                    raise MalformedContent(f"field {field.number} of a {kind} is no message")
                waiting.append((inner, field.start, field.end, depth + 1))
    return found


def _location(content: Content, entry: protobuf.ProtobufField) -> set[str]:
    parts = {
        field.number: protobuf.text(content, field, limit=4_096)
        for field in protobuf.fields(content, entry.start, entry.end)
    }
    if parts.get(1) != "location":
        return set()
    path = parts.get(2, "")
    try:
        return {check_file_path(path)}
    except FileRefused as refusal:
        raise MalformedContent(f"it loads tensors from '{refusal.path}': {refusal.reason}") from None
