"""Settings of how long what has ended is kept."""

from pydantic_settings import BaseSettings

from common.setting_types import days


class RetentionSettings(BaseSettings):
    """How long things are kept"""

    keep_intents_days: int = days(
        30, "the journal keeps a finished step; those under way and in doubt stay as long as they are so."
    )
    keep_answers_days: int = days(
        1, "the answer to a request with an `Idempotency-Key` is kept, and repeated to who sends it again."
    )
    keep_webhooks_days: int = days(
        30, "a webhook event is kept with what its receivers answered; longer while it is on its way."
    )
    keep_sessions_days: int = days(1, "an expired session is kept.")
    keep_sign_ins_days: int = days(
        90, "sign-ins, and failed ones, are kept where lockouts count them; the audit record keeps its own."
    )
