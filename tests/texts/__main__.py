"""Catalogues and the strings that lack a mark.

python -m tests.texts             brings locale/ up to what the code says, lists what lacks a translation
python -m tests.texts new.json    the same, with the translations of {source: translation}
python -m tests.texts --check     fails when a string is not marked, not in the catalogue or not translated
"""

import os
import sys
from pathlib import Path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.test")

import django

django.setup()

from tests.texts import catalogues, unmarked  # noqa: E402


def main(arguments: list[str]) -> int:
    if arguments == ["--check"]:
        found = [*unmarked.faults(), *catalogues.faults()]
        sys.stderr.writelines(f"{fault}\n" for fault in found)
        if found:
            sys.stderr.write(f"{len(found)} texts: mark them, then python -m tests.texts\n")
        return bool(found)
    translations = catalogues.translations_of(Path(arguments[0])) if arguments else None
    missing = catalogues.update(translations)
    sys.stdout.writelines(f"{text!r}\n" for text in missing)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
