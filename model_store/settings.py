from pydantic_settings import BaseSettings

from common.setting_types import days


class Settings(BaseSettings):
    """Model store"""

    keep_store_runs_days: int = days(
        365, "checks and collections of the model store, and what checks found, are listed after their end."
    )
