"""Phrases on product pictures, English and Spanish: templates times word lists.

No word has an accent: the font that comes with Pillow has none.
"""

import random

BRANDS = ("SlipWear", "Norvik")
"""The glossary: never translated."""
NOUNS = {
    "shoes": "zapatos", "watches": "relojes", "bags": "bolsos", "coats": "abrigos", "dresses": "vestidos",
    "hats": "sombreros", "rings": "anillos", "books": "libros", "toys": "juguetes", "gloves": "guantes",
}  # fmt: skip
ADJECTIVES = {
    "new": "nuevos", "elegant": "elegantes", "modern": "modernos", "light": "ligeros", "strong": "fuertes",
    "soft": "suaves", "red": "rojos", "white": "blancos", "black": "negros", "cheap": "baratos",
}  # fmt: skip
TEMPLATES = (
    ("{adjective} {noun}", "{noun} {adjective}"),
    ("{adjective} and {other} {noun}", "{noun} {adjective} y {other}"),
    ("free shipping for {noun}", "entrega gratis para {noun}"),
    ("{noun} for the whole family", "{noun} para toda la familia"),
    ("buy two {noun}", "compra dos {noun}"),
    ("the best {noun}", "los mejores {noun}"),
    ("{noun} made by hand", "{noun} hechos a mano"),
    ("half price for {adjective} {noun}", "{noun} {adjective} a mitad de precio"),
    ("{brand} {noun}", "{noun} {brand}"),
    ("{adjective} {noun} by {brand}", "{noun} {adjective} de {brand}"),
)


def phrase(draw: random.Random) -> tuple[str, str]:
    """A phrase and its translation."""
    source, target = draw.choice(TEMPLATES)
    noun, adjective, other = draw.choice([*NOUNS]), *draw.sample([*ADJECTIVES], 2)
    brand = draw.choice(BRANDS)
    spanish = {"noun": NOUNS[noun], "adjective": ADJECTIVES[adjective], "other": ADJECTIVES[other]}
    return (
        source.format(noun=noun, adjective=adjective, other=other, brand=brand),
        target.format(**spanish, brand=brand),
    )
