"""Translates the text in product pictures: decode, matting, OCR, translation, inpainting, rendering.

Text on the product itself (its brand) stays as it is.
"""

# Types do not see that a decorator makes tasks of classes, and OpenCV has no types here.
# mypy: disable-error-code="operator, attr-defined, no-any-return"

import json
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from slipway import graph

SIDE = 64
"""Pictures are this large for matting."""
LONGEST = 12
START, END, TERM = "<s>", "</s>", "<term>"
Pixels = np.ndarray


@dataclass
class Lines:
    text: list[str]
    boxes: list[list[int]]
    """Left, top, right, bottom."""
    found: bool


class UNet(nn.Module):
    """A mask out of a small picture."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = block(5, 8), block(8, 16), block(16, 32)
        self.up_second, self.up_first = block(32 + 16, 16), block(16 + 8, 8)
        self.last = nn.Conv2d(8, 1, 1)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        first = self.first(pictures)
        second = self.second(nn.functional.max_pool2d(first, 2))
        third = self.third(nn.functional.max_pool2d(second, 4))
        second = self.up_second(torch.cat([nn.functional.interpolate(third, scale_factor=4), second], 1))
        first = self.up_first(torch.cat([nn.functional.interpolate(second, scale_factor=2), first], 1))
        mask: torch.Tensor = self.last(first)[:, 0]
        return mask


def block(inside: int, outside: int) -> nn.Module:
    norm = nn.GroupNorm(4, outside)
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, padding=1),
        norm,
        nn.ReLU(),
        nn.Conv2d(outside, outside, 3, padding=1),
        nn.ReLU(),
    )


class WordTransformer(nn.Module):
    """Next words of a translation, by the phrase and the words so far. 0 pads."""

    def __init__(self, words: int, width: int = 64) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width, 0), nn.Embedding(LONGEST + 2, width)
        self.body = nn.Transformer(width, 4, 2, 2, 128, 0.0, batch_first=True)
        self.body.encoder.use_nested_tensor = False
        self.last = nn.Linear(width, words)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        later = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        body = self.body(
            self._embedded(source),
            self._embedded(target),
            tgt_mask=later,
            src_key_padding_mask=source == 0,
            memory_key_padding_mask=source == 0,
        )
        words: torch.Tensor = self.last(body)
        return words

    def _embedded(self, words: torch.Tensor) -> torch.Tensor:
        embedded: torch.Tensor = self.words(words) + self.places(torch.arange(words.shape[1]))
        return embedded


def small(pixels: Pixels) -> torch.Tensor:
    """A picture as the U-Net takes it: SIDE x SIDE of its pixels, and the place of each as two channels."""
    rows = np.arange(SIDE) * pixels.shape[0] // SIDE
    columns = np.arange(SIDE) * pixels.shape[1] // SIDE
    seen = torch.from_numpy(pixels[rows][:, columns].astype(np.float32) / 255).permute(2, 0, 1)
    along = torch.linspace(-1, 1, SIDE).expand(SIDE, SIDE)
    return torch.cat([seen, along[None], along.T[None]])


@graph.task
def decode(picture: graph.Image) -> Pixels:
    import cv2

    decoded = cv2.imdecode(np.frombuffer(picture, np.uint8), cv2.IMREAD_COLOR)
    if decoded is None:
        raise ValueError("the picture cannot be decoded")
    pixels = graph.empty(decoded.shape, "uint8")
    return cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB, dst=pixels)


@graph.task(batch=graph.Batch(max_size=8, max_wait_ms=10))
class Matting:
    def load(self, files: Mapping[str, Path]) -> None:
        from safetensors.torch import load_file

        self.network = UNet()
        self.network.load_state_dict(load_file(files["matting"]))
        self.network.eval()

    def run(self, pictures: list[Pixels]) -> list[Pixels]:
        import cv2

        with torch.inference_mode():
            masks = (self.network(torch.stack([small(one) for one in pictures])) > 0).numpy()
        return [
            cv2.resize(mask.astype(np.uint8), one.shape[1::-1], interpolation=cv2.INTER_NEAREST)
            for mask, one in zip(masks, pictures, strict=True)
        ]


@graph.task
class Ocr:
    def load(self, files: Mapping[str, Path]) -> None:
        from rapidocr import RapidOCR

        self.engine = RapidOCR(
            params={
                "Global.use_cls": False,
                "Global.log_level": "error",
                "EngineConfig.onnxruntime.intra_op_num_threads": 1,
                "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            }
        )

    def run(self, pictures: list[Pixels]) -> list[Lines]:
        return [self.read(one) for one in pictures]

    def read(self, pixels: Pixels) -> Lines:
        found = self.engine(np.ascontiguousarray(pixels[:, :, ::-1]))
        boxes = [] if found.boxes is None else found.boxes
        corners = [[*box.min(0).astype(int).tolist(), *box.max(0).astype(int).tolist()] for box in boxes]
        return Lines(list(found.txts or ()), corners, bool(found.txts))


@graph.task
def off_product(lines: Lines, mask: Pixels) -> Lines:
    """The lines that do not stand on the product."""
    kept = [
        at
        for at, (left, top, right, bottom) in enumerate(lines.boxes)
        if mask[top:bottom, left:right].mean() < 0.5
    ]
    return Lines([lines.text[at] for at in kept], [lines.boxes[at] for at in kept], bool(kept))


@graph.task(batch=graph.Batch(max_size=16, max_wait_ms=10))
class Translate:
    """The glossary first, then a small Transformer."""

    def load(self, files: Mapping[str, Path]) -> None:
        from safetensors.torch import load_file

        known = json.loads(files["words"].read_text())
        self.words, self.glossary = known["words"], known["glossary"]
        self.numbers = {word: number for number, word in enumerate(self.words)}
        self.network = WordTransformer(len(self.words))
        self.network.load_state_dict(load_file(files["translator"]))
        self.network.eval()

    def run(self, phrases: list[str]) -> list[str]:
        prepared = [self.prepared(one) for one in phrases]
        source = torch.zeros(len(phrases), LONGEST, dtype=torch.long)
        for row, (numbers, _) in enumerate(prepared):
            source[row, : len(numbers)] = torch.tensor(numbers)
        target = torch.full((len(phrases), 1), self.numbers[START])
        with torch.inference_mode():
            for _ in range(LONGEST):
                following = self.network(source, target)[:, -1].argmax(1, keepdim=True)
                target = torch.cat([target, following], 1)
        return [self.written(row.tolist(), terms) for row, (_, terms) in zip(target, prepared, strict=True)]

    def prepared(self, phrase: str) -> tuple[list[int], list[str]]:
        """Numbers of the words, and the terms that stand for themselves. A word that was misread becomes the
        nearest one."""
        numbers, terms = [], []
        for word in phrase.split()[:LONGEST]:
            if term := get_close_matches(word, self.glossary, 1, 0.75):
                terms += term
                word = TERM
            elif word.lower() not in self.numbers:
                word = (get_close_matches(word.lower(), self.words, 1, 0.6) or [TERM])[0]
                terms += ["?"] if word == TERM else []
            numbers.append(self.numbers[word if word == TERM else word.lower()])
        return numbers or [self.numbers[END]], terms

    def written(self, numbers: list[int], terms: list[str]) -> str:
        waiting = iter(terms)
        words: list[str] = []
        for number in numbers[1:]:
            word = self.words[number]
            if word == END:
                break
            words.append(next(waiting, "") if word == TERM else word)
        return " ".join(words)


@graph.task
def inpaint(pixels: Pixels, boxes: list[list[int]], mask: Pixels) -> Pixels:
    """The picture without the text; the product stays."""
    import cv2

    holes = np.zeros(pixels.shape[:2], np.uint8)
    for left, top, right, bottom in boxes:
        holes[max(0, top - 2) : bottom + 3, max(0, left - 2) : right + 3] = 255
    holes[mask > 0] = 0
    return cv2.inpaint(pixels, holes, 3, cv2.INPAINT_TELEA)


@graph.task
def render(clean: Pixels, pixels: Pixels, boxes: list[list[int]], texts: list[str]) -> bytes:
    """The translations where the lines stood, as large as fits, in the lines' own colour."""
    import io

    from PIL import Image, ImageDraw, ImageFont

    image = Image.fromarray(clean)
    pen = ImageDraw.Draw(image)
    for (left, top, right, bottom), text in zip(boxes, texts, strict=True):
        old, ground = (
            pixels[top:bottom, left:right].reshape(-1, 3),
            clean[top:bottom, left:right].reshape(-1, 3),
        )
        apart = np.abs(old.astype(int) - ground).sum(1)
        colour = np.median(old[apart >= np.quantile(apart, 0.95)], 0).astype(int)
        size = max(8, round(0.85 * (bottom - top)))
        room = max(right, image.width - 12) - left
        while size > 8 and pen.textlength(text, ImageFont.load_default(size)) > room:
            size -= 1
        middle = (top + bottom) / 2
        pen.text((left, middle), text, tuple(colour.tolist()), ImageFont.load_default(size), anchor="lm")
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=1)
    return file.getvalue()


@graph.task
def described(lines: Lines, texts: list[str], mask: Pixels) -> dict[str, Any]:
    """Facts about the result: the lines that were read, their translations, the product's place."""
    rows, columns = np.nonzero(mask)
    product = (
        [int(one) for one in (columns.min(), rows.min(), columns.max(), rows.max())] if len(rows) else []
    )
    return {
        "lines": [
            {"text": text, "box": box, "translation": told}
            for text, box, told in zip(lines.text, lines.boxes, texts, strict=True)
        ],
        "product": product,
        "product_pixels": len(rows),
    }


@graph.task
def mask_png(mask: Pixels) -> bytes:
    import cv2

    return cv2.imencode(".png", mask * 255)[1].tobytes()


with graph.Graph("translate-image") as g:
    pixels = decode(g.input("picture", graph.Image))
    mask = Matting()(pixels)
    lines = off_product(Ocr()(pixels), mask)
    clean = inpaint.when(lines.found, otherwise=pixels)(pixels, lines.boxes, mask)
    texts = Translate().each(lines.text)
    g.output(render(clean, pixels, lines.boxes, texts), "picture")
    g.output(described(lines, texts, mask), "facts")
    g.output(mask_png(mask), "mask")
