"""Settings of the files of models: where they come from, lie and go, and who signs them."""

from pydantic import Field
from pydantic_settings import BaseSettings

from common.setting_types import Directories, StoreAddress, WebAddress


class ModelFileSettings(BaseSettings):
    """Models: where they come from, lie and go"""

    import_roots: Directories = Field(
        (),
        description="Colon-separated absolute directories that model imports may read, besides the home's "
        "`imports`.",
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

    @property
    def store_is_shared_directory(self) -> bool:
        """Every host has the directory, under whatever path."""
        return self.store.startswith("/")

    @property
    def store_bucket(self) -> str:
        return "" if self.store_is_shared_directory else self.store
