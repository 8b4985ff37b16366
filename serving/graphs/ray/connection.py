"""A Ray of this machine for one run, or one that is there already."""

import contextlib
import logging
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import ray

import serving
from serving.graphs.errors import GraphError
from serving.graphs.ray.sizes import check_capacity

OWN_CPUS = 1
"""Of a Ray that is started here, beside those of the plan: for what is no actor of a task."""


@contextlib.contextmanager
def connected(address: str, file: Path, needed: Mapping[str, float]) -> Iterator[Path]:
    """The graph's file as actors find it. Without an address a Ray of this machine is started, as large as
    the plan needs: more processes than cores share them, as those of the embedded executor do. A Ray at an
    address is sent the file's directory and this program. Raises GraphError."""
    if address.startswith("ray://"):
        raise GraphError(
            f"{address} is Ray's client port, which Ray Data cannot use: run this on a node of that "
            "cluster, with --address auto or HOST:PORT of its head"
        )
    options: dict[str, Any] = {"logging_level": logging.WARNING, "log_to_driver": False}
    temporary = None
    if address:
        code = [str(Path(serving.__path__[0]).with_name(name)) for name in ("serving", "slipway")]
        sent = {"working_dir": str(file.parent), "py_modules": code}
        options |= {"address": address, "runtime_env": sent}
    else:
        temporary = tempfile.mkdtemp(prefix="slipway-ray-")
        options |= {
            "num_cpus": int(needed["CPU"]) + OWN_CPUS,
            "include_dashboard": False,
            "_temp_dir": temporary,
        }
    try:
        ray.init(**options)
        if address:
            check_capacity(needed, ray.cluster_resources())
        yield Path(file.name) if address else file
    except (ConnectionError, ray.exceptions.RuntimeEnvSetupError, ValueError, RuntimeError) as error:
        where = f"the Ray at {address}" if address else "Ray"
        raise GraphError(f"{where} could not be used: {error}") from None
    finally:
        ray.shutdown()
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
