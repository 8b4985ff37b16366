from pydantic_settings import BaseSettings

from common.setting_types import days


class Settings(BaseSettings):
    """Alerts"""

    keep_alerts_days: int = days(90, "alerts are kept after they were resolved.")
