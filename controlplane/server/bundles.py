"""`slipway-server bundle`: exit status 0, also with parts missing, which are named; 1: it is not written."""

import sys
from pathlib import Path

from controlplane.garbage import set_up_django


def bundle_or_exit(path: Path) -> None:
    set_up_django()
    from controlplane.support.bundle import CannotBundle, write_bundle

    try:
        bundle = write_bundle(path)
    except CannotBundle as error:
        sys.exit(str(error))
    for problem in bundle.problems:
        sys.stdout.write(f"{problem}\n")
    sys.stdout.write(
        f"{bundle.path} holds {bundle.files} files. Secrets were taken out; names of models, people and "
        "machines were not.\n"
    )
