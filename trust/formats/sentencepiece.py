"""SentencePiece tokenizers (`tokenizer.model` of Llama, T5, Gemma): a protobuf of pieces, data only.

https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto
"""

from model_store.reading import Content, MalformedContent
from trust.formats import protobuf

MAX_BYTES = 128 * 1024 * 1024
_PIECE, _TRAINER = 1, 2
_EXTENSIONS_FROM = 200


def parse(content: Content) -> int:
    """Number of pieces; else Malformed."""
    if content.size > MAX_BYTES:
        raise MalformedContent(f"it is larger than {MAX_BYTES:,} bytes")
    pieces = trainers = 0
    for field in protobuf.fields(content):
        if field.wire != protobuf.LENGTH or 5 < field.number < _EXTENSIONS_FROM:
            raise MalformedContent(f"it has a field {field.number} that a SentencePiece model does not have")
        if field.number == _PIECE:
            _check_piece(content, field)
            pieces += 1
        trainers += field.number == _TRAINER
    if not pieces or trainers != 1:
        raise MalformedContent(f"it has {pieces} pieces and {trainers} trainer descriptions")
    return pieces


def _check_piece(content: Content, piece: protobuf.ProtobufField) -> None:
    wires = {field.number: field.wire for field in protobuf.fields(content, piece.start, piece.end)}
    if wires.get(1) != protobuf.LENGTH or wires.get(2, protobuf.FIXED32) != protobuf.FIXED32:
        raise MalformedContent("one of its pieces has no text or a malformed score")
    if wires.get(3, protobuf.VARINT) != protobuf.VARINT:
        raise MalformedContent("one of its pieces has a malformed type")
