"""Settings of the files of models: where they come from, lie and go, and who signs them."""

from pydantic import Field, ValidationInfo, field_validator
from pydantic_settings import BaseSettings

from controlplane.setting_types import Command, Directories, File, StoreAddress, WebAddress, WebAddresses


class ModelFiles(BaseSettings):
    """Models: where they come from, lie and go"""

    import_roots: Directories = Field(
        (),
        description="Colon-separated absolute directories that model imports may read, besides the home's "
        "`imports`.",
    )
    hub_endpoints: WebAddresses = Field(
        ("https://huggingface.co",),
        description="Comma-separated addresses of the model hubs that syncs may read; the first is the "
        "default. Those named here may lie in private networks; what they redirect to may not.",
    )
    export_endpoints: WebAddresses = Field(
        (),
        description="Comma-separated addresses of the Hugging Face hubs and other Slipways to which versions "
        "may be exported; the first is the default. Empty: nothing leaves this server. Those named here may "
        "lie in private networks; storage to which they lead files only when it is named, too.",
    )
    store: StoreAddress = Field(
        "",
        description="Where the files of models lie: `s3://bucket/prefix`, or an absolute directory; several "
        "hosts must share it, see docs/STORE.md. Empty: the directory `models` in the home.",
    )
    store_endpoint: WebAddress = Field("", description="Address of the bucket's server. Empty: Amazon S3.")
    store_region: str = Field("", description="Region of the bucket. Empty: AWS_DEFAULT_REGION.")
    store_path_style: bool = Field(
        False, description="Address the bucket by path, not by host name: most servers of one's own want it."
    )
    store_cache_gib: int = Field(
        0,
        ge=0,
        description="GiB of a bucket's files that each node keeps; what it serves stays anyway. 0: no limit.",
    )
    store_grace_hours: int = Field(
        24,
        ge=0,
        le=8_760,
        description="Hours that a file which no model version needs any more stays in the model store.",
    )
    store_check_days: int = Field(
        30, ge=0, le=365, description="Days between two checks that read the whole model store. 0: never."
    )
    store_quarantine_days: int = Field(
        30,
        ge=0,
        le=3_650,
        description="Days that a damaged file is kept aside, for people to look at; longer while no whole "
        "one has taken its place. 0: for good.",
    )
    store_check_mib_per_second: int = Field(
        100, ge=1, description="MiB per second at which such a check reads at most."
    )
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

    @property
    def store_is_shared_directory(self) -> bool:
        """Every host has the directory, under whatever path."""
        return self.store.startswith("/")

    @property
    def store_bucket(self) -> str:
        return "" if self.store_is_shared_directory else self.store
