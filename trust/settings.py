from pydantic import Field, ValidationInfo, field_validator
from pydantic_settings import BaseSettings

from common.setting_types import Command, File


class Settings(BaseSettings):
    """Signing"""

    signing_key: File = Field(
        "",
        description="PEM file with the private key (elliptic curve, P-256, P-384 or P-521, no password) that "
        "signs every version that is imported. Empty: nothing is signed, or a command does it.",
    )
    signing_command: Command = Field(
        (),
        description="Command that signs instead, for keys in a KMS: it gets the bytes to sign on standard "
        "input and answers with an ECDSA signature over their SHA-256 (P-256), SHA-384 (P-384) or SHA-512 "
        "(P-521), in DER or base64, within 8 s. No shell runs it.",
    )
    signing_public_key: File = Field(
        "",
        validate_default=True,
        description="PEM file with the public key of SLIPWAY_SIGNING_COMMAND. Required with it.",
    )

    @field_validator("signing_command")
    @classmethod
    def _one_signer(cls, command: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if command and info.data.get("signing_key"):
            raise ValueError("must be empty while SLIPWAY_SIGNING_KEY is set")
        return command

    @field_validator("signing_public_key")
    @classmethod
    def _key_of_command(cls, path: str, info: ValidationInfo) -> str:
        if info.data.get("signing_command") and not path:
            raise ValueError("must be set while SLIPWAY_SIGNING_COMMAND is")
        return path
