"""The translation sample: pictures know their truth, and the glossary comes before the network."""

import numpy as np
import pytest

from controlplane.sample.translate import phrases, pictures


def test_pictures_know_where_text_and_product_are():
    picture = pictures.draw(5)

    assert pictures.draw(5).png() == picture.png()
    assert len(picture.lines) == len(picture.boxes) == 2
    for left, top, right, bottom in picture.boxes:
        assert not picture.mask[top:bottom, left:right].any()
        brightness = picture.pixels[top:bottom, left:right].mean(2)
        assert np.ptp(brightness) > 60, "nothing is written there"
    assert 0.1 < picture.mask.mean() < 0.5


@pytest.mark.process
def test_the_glossary_keeps_brands_and_misread_words_become_known_ones():
    from controlplane.sample.translate import app

    translate = app.Translate.target()
    translate.glossary = list(phrases.BRANDS)
    translate.words = ["", app.START, app.END, app.TERM, "elegant", "elegantes", "shoes", "zapatos"]
    translate.numbers = {word: number for number, word in enumerate(translate.words)}

    assert translate.prepared("Elegant sh0es Norvlk") == ([4, 6, 3], ["Norvik"])
    assert translate.written([1, 7, 3, 5, 2, 7], ["Norvik"]) == "zapatos Norvik elegantes"


@pytest.mark.process
def test_the_graph_reads_and_cleans_a_picture_at_the_same_time():
    from controlplane.sample.translate import app

    edges = {(one["from"], one["to"]) for one in app.g.description.document()["edges"]}
    assert {
        ("decode", "Matting"),
        ("decode", "Ocr"),
        ("off_product", "inpaint"),
        ("off_product", "Translate"),
    } <= edges
