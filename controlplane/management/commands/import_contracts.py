import re
from collections.abc import Iterable
from pathlib import Path

from django.conf import settings

from common.management.written import WrittenFromCode
from controlplane.installed import APPS, LAYERS, NOT_APPS


class Command(WrittenFromCode):
    help = "Write the lists of apps in .importlinter; what else stands there is left as it is."
    file = ".importlinter"

    def text(self) -> str:
        text = (Path(settings.BASE_DIR) / self.file).read_text()
        text = _with_list(text, "importlinter", "root_packages", sorted({*APPS, *NOT_APPS}))
        layers = ["controlplane", *(" | ".join(layer) for layer in reversed(LAYERS)), "kube | common"]
        text = _with_list(text, "importlinter:contract:apps", "layers", layers)
        text = _with_list(text, "importlinter:contract:inside", "containers", sorted(APPS))
        # Parts of GPU health are shared with machines and the client, and named one by one.
        apps = [*(app for app in sorted(APPS) if app != "gpu_health"), "gpu_health.*"]
        server = ["django", "rest_framework", "celery", "channels", *apps, "common", "controlplane", "kube"]
        text = _with_list(text, "importlinter:contract:worker", "forbidden_modules", [*server, "slipway"])
        text = _with_list(text, "importlinter:contract:client", "forbidden_modules", [*server, "serving"])
        everything = sorted({*APPS, *NOT_APPS})
        text = _with_list(text, "importlinter:contract:kubernetes", "source_modules", everything)
        others = [one for one in everything if one != "serving"]
        return _with_list(text, "importlinter:contract:protocol", "source_modules", others)


def _with_list(text: str, section: str, key: str, values: Iterable[str]) -> str:
    """`values` in place of those that `key` of the section has."""
    pattern = rf"(\[{section}\]\n(?:(?!\[).*\n)*?{key} =\n)(?:    .*\n)+"
    changed, count = re.subn(
        pattern, lambda found: found[1] + "".join(f"    {one}\n" for one in values), text
    )
    if count != 1:
        raise LookupError(f".importlinter: no list {key} in [{section}]")
    return changed
