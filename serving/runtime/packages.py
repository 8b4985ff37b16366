"""The packages that a version's own code needs, as its lock file names them."""

import hashlib
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import serving
from serving.engines.base import EngineError
from serving.environments import (
    EnvironmentNotMade,
    LockedEnvironment,
    ensure_held,
    export_lock,
    remove_unused,
)

LOCKS = ("requirements.lock", "pylock.toml", "uv.lock")
ONLY_WHEELS = "--only-binary :all:\n"
"""Nothing is built: to install a package runs no code of it."""


def python_for(directory: Path, root: Path | None) -> str:
    """The Python that runs the code of a version: of an environment made of its lock file, or the worker's.

    What the lock does not name is the worker's. Blocks while packages are installed. Raises EngineError.
    """
    lock = next((path for name in LOCKS if (path := directory / name).is_file()), None)
    wheels = sorted(directory.glob("*.whl"))
    if lock is None:
        if wheels:
            raise EngineError(f"{wheels[0].name} needs one of {', '.join(LOCKS)} beside it")
        return sys.executable
    if root is None:
        raise EngineError(f"{lock.name} needs an environment, and the worker has no directory for any")
    try:
        text = ONLY_WHEELS + "".join([_requirements(lock), *map(_of_wheel, wheels)])
        environment = LockedEnvironment(name="app", lock=text, also=tuple(own_paths()))
        place = ensure_held(environment, root)
        remove_unused(root)
    except (EnvironmentNotMade, OSError, ValueError, KeyError) as error:
        raise EngineError(f"the packages of {lock.name} cannot be installed: {error}") from None
    return str(place / "bin" / "python")


def _requirements(lock: Path) -> str:
    """Write a lock as a requirements file. Raises ValueError, KeyError, EnvironmentNotMade."""
    if lock.name == "uv.lock":
        return export_lock(lock.parent)
    text = lock.read_text()
    return text + "\n" if lock.name == "requirements.lock" else "".join(_of_pylock(tomllib.loads(text)))


def _of_pylock(document: dict[str, Any]) -> Iterator[str]:
    for package in document["packages"]:
        hashes = [wheel["hashes"]["sha256"] for wheel in package.get("wheels", ())]
        if not hashes:
            raise ValueError(f"{package['name']} has no wheel in it")
        marker = f" ; {package['marker']}" if "marker" in package else ""
        allowed = "".join(f" --hash=sha256:{one}" for one in hashes)
        yield f"{package['name']}=={package['version']}{marker}{allowed}\n"


def _of_wheel(path: Path) -> str:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return f"{path.name.partition('-')[0]} @ {path.resolve().as_uri()} --hash=sha256:{digest}\n"


def own_paths() -> list[str]:
    own = str(Path(serving.__path__[0]).resolve().parent)
    return [own, *(path for path in sys.path if path.endswith(("site-packages", "dist-packages")))]
