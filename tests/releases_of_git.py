"""Releases of Slipway as git knows them: tags `v1.2.3`. A clone without tags knows none."""

import io
import os
import subprocess
import tarfile
from pathlib import Path

from controlplane.environment import PROJECT

CHOICE = "SLIPWAY_TEST_RELEASE"
"""Names another commit than the last release for tests that start from one."""


def git(project: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=project, check=True, capture_output=True, text=True, timeout=60
    ).stdout


def last_release(project: Path = PROJECT) -> str:
    """The tag; empty where there is none, or no git."""
    try:
        return git(project, "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*").strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def code_of_release(into: Path) -> str:
    """Put the code of the last release into a directory, and return its name; empty where there is none."""
    release = os.environ.get(CHOICE) or last_release()
    if release:
        packed = subprocess.run(
            ["git", "archive", release], cwd=PROJECT, check=True, capture_output=True, timeout=60
        )
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            archive.extractall(into, filter="data")
        (into / "node_modules").symlink_to(PROJECT / "node_modules")
    return release
