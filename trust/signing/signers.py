"""Who signs for this installation: a private key in a file, or a command that asks a KMS."""

import base64
import binascii
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from model_store.paths import printable
from trust.errors import BadKey, CannotSign
from trust.signing import keys
from trust.signing.keys import PublicKey

PATIENCE_SECONDS = 8.0
"""Of a command; a step of the kernel may take twenty."""
MAX_ANSWER_BYTES = 4_096


class Signer(Protocol):
    @property
    def public_key(self) -> PublicKey: ...

    def sign(self, message: bytes) -> bytes:
        """ECDSA in DER, with the hash that belongs to the key's curve. Raises CannotSign."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command that reads the message from standard input and prints the signature: DER, or base64 of it.

    No shell runs it, and it learns nothing of Slipway's own settings.
    """

    arguments: Sequence[str]
    public_key: PublicKey
    patience_seconds: float = PATIENCE_SECONDS

    def sign(self, message: bytes) -> bytes:
        environment = {name: text for name, text in os.environ.items() if not name.startswith("SLIPWAY_")}
        try:
            done = subprocess.run(
                self.arguments,
                input=message,
                env=environment,
                capture_output=True,
                timeout=self.patience_seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise CannotSign(
                f"The signing command has not answered in {self.patience_seconds:.0f} s."
            ) from None
        except OSError as error:
            raise CannotSign(f"The signing command cannot be started: {error.strerror or error}.") from None
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()
            words = f": {printable(said[-1])[:300]}" if said else ""
            raise CannotSign(f"The signing command failed with status {done.returncode}{words}.")
        signature = _decoded(done.stdout[: MAX_ANSWER_BYTES + 1])
        if not self.public_key.verifies(signature, message):
            raise CannotSign(
                "What the signing command answers is no signature by the key in SLIPWAY_SIGNING_PUBLIC_KEY."
            )
        return signature


def _decoded(answer: bytes) -> bytes:
    try:
        return base64.b64decode(answer.strip(), validate=True)
    except binascii.Error:
        return answer


def key_file(path: Path) -> Signer:
    """Raises CannotSign."""
    try:
        return keys.private_key(path.read_bytes())
    except (OSError, BadKey) as error:
        raise _unusable(path, error) from None


def command(arguments: Sequence[str], public_key: Path) -> Signer:
    """Raises CannotSign."""
    try:
        return Command(arguments, keys.public_key(public_key.read_text("utf-8", "replace")))
    except (OSError, BadKey) as error:
        raise _unusable(public_key, error) from None


def _unusable(path: Path, error: OSError | BadKey) -> CannotSign:
    why = error.strerror if isinstance(error, OSError) else str(error)
    return CannotSign(f"The key in {path} cannot be used: {why}")
