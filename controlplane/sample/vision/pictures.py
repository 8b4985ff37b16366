"""Pictures of shapes, drawn by chance: place, size, turn, brightness and noise differ."""

import numpy as np

SIDE, COUNT = 32, 4
Pictures = np.ndarray


def draw(shape: int, random: np.random.Generator) -> Pictures:
    """Points of `SIDE` x `SIDE` from 0 to 255; `shape` counts circle, square, triangle, cross."""
    rows, columns = np.mgrid[0:SIDE, 0:SIDE].astype(np.float32)
    middle, size, turn = random.uniform(10, 22, 2), random.uniform(5, 10), random.uniform(-0.4, 0.4)
    down, right = rows - middle[0], columns - middle[1]
    x, y = right * np.cos(turn) + down * np.sin(turn), down * np.cos(turn) - right * np.sin(turn)
    inside = (
        np.hypot(x, y) < size,
        np.maximum(abs(x), abs(y)) < size * 0.9,
        (y < size * 0.6) & (abs(x) * 1.73 - y < size),
        (np.minimum(abs(x), abs(y)) < size * 0.3) & (np.maximum(abs(x), abs(y)) < size * 1.1),
    )[shape]
    noise = random.normal(0, random.uniform(5, 35), (SIDE, SIDE))
    ground = random.uniform(0, 80)
    points: Pictures = np.clip(ground + inside * random.uniform(70, 160) + noise, 0, 255)
    return points.astype(np.uint8)


def drawn(count: int, random: np.random.Generator) -> tuple[Pictures, Pictures]:
    """Pictures, and which shape each is of."""
    shapes = random.integers(0, COUNT, count)
    return np.stack([draw(int(shape), random) for shape in shapes]), shapes
