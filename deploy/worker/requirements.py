"""Prints what the named extras of a `pyproject.toml` want, one a line: all that a worker takes of it."""

import sys
import tomllib
from pathlib import Path

file, *extras = sys.argv[1:]
known = tomllib.loads(Path(file).read_text())["project"]["optional-dependencies"]
for extra in extras:
    if extra not in known:
        sys.exit(f"There is no extra {extra}; there are {', '.join(known)}.")
sys.stdout.write("".join(f"{one}\n" for extra in extras for one in known[extra]))
