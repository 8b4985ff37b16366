from pydantic_settings import BaseSettings

from common.setting_types import days


class Settings(BaseSettings):
    """Releases"""

    keep_evidence_days: int = days(365, "the points of a release's evidence chart are kept after its end.")
