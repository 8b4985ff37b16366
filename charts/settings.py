from pydantic import Field
from pydantic_settings import BaseSettings

from common.setting_types import ClientSecret, WebAddress


class Settings(BaseSettings):
    """Charts"""

    prometheus_url: WebAddress = Field(
        "",
        description="Prometheus that scrapes `/metrics`, up to what comes before `/api/v1`: charts of 90 "
        "days and of a year are read from it. Empty: charts reach back 30 days.",
    )
    prometheus_token: ClientSecret = Field("", description="Bearer token for `SLIPWAY_PROMETHEUS_URL`.")
