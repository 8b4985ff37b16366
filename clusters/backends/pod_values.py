"""Single values of pod settings: names, amounts, labels and paths, each with what is wrong with it."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field, StrictStr

from clusters.backends.base import NAME, SECRET_NAME
from clusters.backends.gpu_names import name_fault
from clusters.backends.kubernetes.quantities import amount
from clusters.backends.labels import is_label
from serving.relay_protocol import METRICS
from serving.worker_command import WORKER_ENVIRONMENT

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OURS = frozenset(
    {
        *WORKER_ENVIRONMENT, "HOME", "LOGNAME", "MODEL_DIR", "MODEL_NAME", "MODEL_VERSION", "NODE_NAME",
        "POD_IP", "POD_NAME", "PORT", "USER", "VLLM_HOST_IP",
    }
)  # fmt: skip
_OUR_PREFIXES = ("SLIPWAY_", "LWS_", "KUBERNETES_")
_SERIES = re.compile(
    r'[a-zA-Z_:][a-zA-Z0-9_:]*(\{[a-zA-Z_][a-zA-Z0-9_]*="[^"\\]*"(,\s*[a-zA-Z_][a-zA-Z0-9_]*="[^"\\]*")*\})?'
)


def _cpus(given: str) -> str:
    return _amount(given, "processors: 4, 0.5 or 500m")


def _bytes(given: str) -> str:
    return _amount(given, "memory: 16Gi or 512Mi")


def _amount(given: str, of: str) -> str:
    try:
        found = amount(given)
    except ValueError:
        raise ValueError(f"Give an amount of {of}.") from None
    if found <= 0:
        raise ValueError(f"Give an amount of {of}; leave it out for as much as there is.")
    return given


def _name(given: str) -> str:
    if not SECRET_NAME.fullmatch(given):
        raise ValueError(
            f"{given!r} cannot be a name in Kubernetes: lower-case letters, digits, '-' and '.'."
        )
    return given


def check_namespace(given: str) -> str:
    if not NAME.fullmatch(given):
        raise ValueError(f"{given!r} cannot name a namespace: lower-case letters, digits and hyphens.")
    return given


def is_ours(variable: str) -> bool:
    """Whether Slipway, or what starts pods for it, sets the variable."""
    return variable in _OURS or variable.startswith(_OUR_PREFIXES)


def _variable(given: str) -> str:
    if not _VARIABLE.fullmatch(given):
        raise ValueError(f"{given!r} cannot name a variable: letters, digits and '_'.")
    if is_ours(given):
        raise ValueError(f"{given} is set by Slipway. Choose another name.")
    return given


def _gpu_name(given: str) -> str:
    if fault := name_fault(given):
        raise ValueError(fault)
    return given


def check_label_key(given: str) -> str:
    if not is_label(given, ""):
        raise ValueError(f"{given!r} cannot be the key of a label.")
    return given


def check_labels(given: dict[str, str]) -> dict[str, str]:
    for key, value in given.items():
        if not is_label(key, value):
            raise ValueError(f"{key}={value} is no label.")
    return given


def _path(given: str) -> str:
    if not given.startswith("/") or any(character.isspace() for character in given):
        raise ValueError("Give a path that begins with '/'.")
    return given


def check_directory(given: str) -> str:
    if ".." in _path(given).split("/") or given in ("/", "/dev/shm", "/tmp", "/scratch"):  # noqa: S108
        raise ValueError("Give an absolute path of a directory of its own, such as /models/version.")
    return given


Cpus = Annotated[str, AfterValidator(_cpus)]
Bytes = Annotated[str, AfterValidator(_bytes)]
Name = Annotated[StrictStr, AfterValidator(_name)]
Variable = Annotated[StrictStr, AfterValidator(_variable)]
Path = Annotated[StrictStr, Field(max_length=200), AfterValidator(_path)]
Whole = Annotated[int, Field(strict=True)]
Port = Annotated[int, Field(strict=True, ge=1024, le=65_535)]
Argument = Annotated[StrictStr, Field(max_length=4_000)]


def _measured(given: str) -> str:
    if given not in METRICS:
        raise ValueError(f"Nothing is read as {given!r}. There are {', '.join(METRICS)}.")
    return given


def _series(given: str) -> str:
    if not _SERIES.fullmatch(given):
        raise ValueError(
            'Give the name of a metric, with labels where they matter: requests_total{code="200"}.'
        )
    return given


def check_load(given: dict[str, str]) -> dict[str, str]:
    if given and not given.keys() & {"running", "worked_seconds"}:
        raise ValueError(
            "Name running (a gauge of requests at work) or worked_seconds (a counter of the time spent on "
            "them): without one nobody knows how busy it is. Name nothing for those of OpenTelemetry."
        )
    return given


GpuName = Annotated[StrictStr, Field(max_length=100), AfterValidator(_gpu_name)]
Measured = Annotated[StrictStr, AfterValidator(_measured)]
Series = Annotated[StrictStr, Field(max_length=300), AfterValidator(_series)]
