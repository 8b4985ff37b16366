"""Settings of what is heard of GPUs and machines."""

from pydantic import Field
from pydantic_settings import BaseSettings

from controlplane.setting_types import Topics


class GpuHealth(BaseSettings):
    """GPU health"""

    gpu_event_topics: Topics = Field(
        (),
        description="Topics of Amazon SNS that events of machines come from, each with the account that they "
        "are taken from: `arn:aws:sns:eu-central-1:123456789012:health=cloud-events`. The account needs the "
        "right `fleet.events`.",
    )
