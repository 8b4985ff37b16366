"""Arguments of a registry's job, as JSON on its command line."""

import json
import sys
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Protocol

from common.jobs.spec import JobLimits, JobSpec
from model_store.allowance import Allowance
from model_store.backends.opening import BUCKET

MEMORY_BYTES = 6 * 1024**3
"""Far above what parsing needs; it ends a process that a crafted file makes swell."""
NICE = 10
_FOR_BUCKET = (
    "HOME", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "AWS_*",
)  # fmt: skip
"""Where boto3 looks for credentials and for the way there."""


class JobInput(Protocol):
    """The input of a job: a dataclass of JSON values, with tuples for lists."""

    PROGRAM: ClassVar[str]
    """The module of ours that does it."""
    NEEDS_NETWORK: ClassVar[bool]
    """More than the store."""


@dataclass(frozen=True, slots=True)
class WholeStore:
    """The input of a check: the whole store, read no faster than this rate."""

    PROGRAM: ClassVar[str] = "model_store.processes.store_scrub"
    NEEDS_NETWORK: ClassVar[bool] = False

    bytes_per_second: int


@dataclass(frozen=True, slots=True)
class StagingJob:
    """Work in the staging area `key` of a store."""

    store: str
    key: str
    source: JobInput
    allowance: Allowance | None = None
    """What the version's team may add; None: whatever there is room for."""
    secret: str = field(default="", repr=False)
    """For the hub. It goes through standard input: other people's processes can read a command line."""

    def as_json(self) -> str:
        """Without the secret."""
        told = {name: value for name, value in asdict(self).items() if name != "secret"}
        return json.dumps({**told, "kind": type(self.source).__name__})

    @classmethod
    def from_json(cls, text: str, *kinds: type[Any], secret: str = "") -> "StagingJob":
        """`kinds`: the classes of sources that the program can do something with."""
        data = json.loads(text)
        source: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in data.pop("source").items()
        }
        named = data.pop("kind")
        kind = next(kind for kind in kinds if kind.__name__ == named)
        told = data.pop("allowance")
        allowance = Allowance(**told) if told else None
        return cls(source=kind(**source), allowance=allowance, secret=secret, **data)

    def spec(self, op_key: str, owner: str) -> JobSpec:
        return job_spec(
            self.source.PROGRAM,
            self.as_json(),
            op_key=op_key,
            owner=owner,
            store=self.store,
            stdin=self.secret.encode(),
            network=self.source.NEEDS_NETWORK,
        )


def job_spec(
    module: str,
    argument: str,
    *,
    op_key: str,
    owner: str,
    store: str,
    stdin: bytes,
    network: bool = False,
    wall_seconds: float | None = None,
) -> JobSpec:
    """A module of ours as a job that reads what nobody trusts, and that may write into the store of this
    address. `network`: whether it needs more than that store.
    """
    is_remote = store.startswith(BUCKET)
    return JobSpec(
        op_key,
        owner,
        (sys.executable, "-m", module, argument),
        environment=_FOR_BUCKET if is_remote else (),
        stdin=stdin,
        limits=JobLimits(
            wall_seconds=wall_seconds, memory_bytes=MEMORY_BYTES, network=network or is_remote, nice=NICE
        ),
    )
