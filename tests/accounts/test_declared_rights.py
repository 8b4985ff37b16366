"""Rights come from the apps that need them."""

import re

from django.conf import settings

from accounts.states import SPECS, Right
from controlplane.installed import APPS


def test_every_right_that_code_names_is_declared():
    """The type checker takes any name for a right."""
    apps = (*APPS, "common", "controlplane")
    files = [file for app in apps for file in (settings.BASE_DIR / app).rglob("*.py")]
    texts = [file.read_text() for file in files]
    named = {name for text in texts for name in re.findall(r"\bRight\.([A-Z_]+)\b", text)}
    assert {"READ", "FLEET_OPERATE"} <= named
    assert named <= set(Right.__members__)


def test_a_right_has_a_value_and_a_place_of_its_own():
    for values in ([spec.value for spec in SPECS], [spec.rank for spec in SPECS]):
        assert len(values) == len(set(values))
