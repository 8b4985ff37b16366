from pydantic import Field
from pydantic_settings import BaseSettings

from common.setting_types import WebAddresses, days


class Settings(BaseSettings):
    """Hubs"""

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
    keep_syncs_days: int = days(
        90, "a hub sync is listed after its end; the last of a source and of a version stays."
    )
    keep_exports_days: int = days(
        365, "an export is listed after its end; the last successful one to a destination stays."
    )
