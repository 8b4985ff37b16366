from pydantic import Field
from pydantic_settings import BaseSettings

from common.setting_types import ClientSecret, Command, Topics, WebAddress, days


class Settings(BaseSettings):
    """GPU health"""

    gpu_check_hours: int = Field(
        0,
        ge=0,
        le=8_760,
        description="An idle machine with GPUs is given the short check again so many hours after the last "
        "one, a tenth of a cluster's at once. 0: only when somebody orders it.",
    )
    gpu_event_topics: Topics = Field(
        (),
        description="Topics of Amazon SNS that events of machines come from, each with the account that they "
        "are taken from: `arn:aws:sns:eu-central-1:123456789012:health=cloud-events`. The account needs the "
        "right `fleet.events`.",
    )
    machine_provider_url: WebAddress = Field(
        "",
        description="Where healing orders a machine to be rebooted, power-cycled or replaced: a signed POST "
        "with `action`, `op_key` and `machine`, answered with `state` (`never`, `running`, `done`, `failed`, "
        "`unknown`) and `words`. One `op_key` must be one deed, however often it is ordered. Empty: nobody "
        "is asked.",
    )
    machine_provider_secret: ClientSecret = Field(
        "", description="`whsec_` and base64: signs these requests, as those of webhooks are."
    )
    checkpoint_webhook_secret: ClientSecret = Field(
        "",
        description="`whsec_` and base64: signs the requests by which drains ask for checkpoints before they "
        "evict pods, as those of webhooks are. Empty: no drain may name such an address.",
    )
    machine_provider_command: Command = Field(
        (),
        description="In its place a program: `PROGRAM ACTION OP_KEY`, the machine as JSON on its standard "
        "input, the same answer on its standard output, within 15 s.",
    )
    keep_gpu_readings_days: int = days(
        90, "a reading of GPU health is kept, and a finding after its end; rules look back 30 days at most."
    )
