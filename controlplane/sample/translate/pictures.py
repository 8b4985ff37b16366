"""Product pictures with their truth: the text and where it stands, the product's mask, the empty ground."""

import io
import random
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from controlplane.sample.translate.phrases import BRANDS, phrase

WIDTH, HEIGHT = 384, 288
Pixels = np.ndarray


@dataclass(frozen=True)
class ProductPicture:
    """`pixels` as they are sent; `mask`: the product; `boxes` of the lines as left, top, right, bottom."""

    pixels: Pixels
    mask: Pixels
    lines: list[tuple[str, str]]
    boxes: list[tuple[int, int, int, int]]

    def png(self) -> bytes:
        file = io.BytesIO()
        Image.fromarray(self.pixels).save(file, "PNG")
        return file.getvalue()


def draw(seed: int) -> ProductPicture:
    chance = random.Random(seed)  # noqa: S311 - pictures, no secrets
    noise = np.random.default_rng(seed)
    ground = _ground(chance, noise)
    shape = _shape(chance)
    mask = np.asarray(shape) > 0
    colour = np.array([chance.randint(20, 235) for _ in range(3)], np.float32)
    if abs(colour.mean() - ground[mask].mean()) < 60:
        colour = (colour + 128) % 256
    rows = np.linspace(1.15, 0.85, HEIGHT, dtype=np.float32)[:, None, None]
    pixels = np.where(mask[:, :, None], np.clip(colour * rows, 0, 255), ground).astype(np.uint8)
    image = Image.fromarray(pixels)
    pen = ImageDraw.Draw(image)
    brand = chance.choice(BRANDS)
    pen.text((WIDTH / 2, HEIGHT / 2), brand, _ink(colour), ImageFont.load_default(18), anchor="mm")
    lines, boxes = [], []
    for top in (16, HEIGHT - 44):
        source, target = phrase(chance)
        font = ImageFont.load_default(chance.randint(18, 22))
        left = chance.randint(12, 40)
        box = pen.textbbox((left, top), source, font)
        pen.text(
            (left, top), source, _ink(ground[int(box[1]) : int(box[3]), int(box[0]) : int(box[2])]), font
        )
        lines.append((source, target))
        boxes.append((int(box[0]), int(box[1]), int(box[2]), int(box[3])))
    return ProductPicture(np.asarray(image), mask, lines, boxes)


def _ground(chance: random.Random, noise: np.random.Generator) -> Pixels:
    first, last = (np.array([chance.randint(0, 255) for _ in range(3)], np.float32) for _ in range(2))
    base = chance.choice((50.0, 205.0))
    first, last = 0.35 * first + 0.65 * base, 0.35 * last + 0.65 * base
    along = np.linspace(0, 1, WIDTH, dtype=np.float32)[None, :, None]
    ground = first + (last - first) * along + noise.normal(0, 3, (HEIGHT, WIDTH, 1))
    return np.clip(ground, 0, 255).astype(np.uint8)


def _shape(chance: random.Random) -> Image.Image:
    image = Image.new("L", (WIDTH, HEIGHT))
    pen = ImageDraw.Draw(image)
    half_width, half_height = chance.randint(70, 110), chance.randint(45, 75)
    x, y = WIDTH // 2 + chance.randint(-15, 15), HEIGHT // 2 + chance.randint(-8, 8)
    box = (x - half_width, y - half_height, x + half_width, y + half_height)
    kind = chance.randrange(3)
    if kind == 0:
        pen.ellipse(box, 255)
    elif kind == 1:
        pen.rounded_rectangle(box, 25, 255)
    else:
        cut = half_width // 3
        points = [(box[0], y), (box[0] + cut, box[1]), (box[2] - cut, box[1]), (box[2], y)]
        pen.polygon([*points, (box[2] - cut, box[3]), (box[0] + cut, box[3])], 255)
    return image


def _ink(ground: Pixels) -> tuple[int, int, int]:
    return (20, 20, 20) if float(np.mean(ground)) > 127 else (240, 240, 240)
