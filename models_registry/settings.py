from pydantic_settings import BaseSettings

from common.setting_types import days


class Settings(BaseSettings):
    """Models"""

    keep_uploads_days: int = days(30, "an upload that made no version is listed after its end.")
