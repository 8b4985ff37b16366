from pydantic_settings import BaseSettings

from common.setting_types import days


class Settings(BaseSettings):
    """Capacity"""

    keep_capacity_days: int = days(30, "decisions on groups and the recorded load of services are kept.")
