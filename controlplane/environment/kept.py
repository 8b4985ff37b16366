"""Settings of how long what has ended is kept."""

from pydantic_settings import BaseSettings

from controlplane.setting_types import days


class Kept(BaseSettings):
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
    keep_uploads_days: int = days(30, "an upload that made no version is listed after its end.")
    keep_syncs_days: int = days(
        90, "a hub sync is listed after its end; the last of a source and of a version stays."
    )
    keep_gpu_readings_days: int = days(
        90, "a reading of GPU health is kept, and a finding after its end; rules look back 30 days at most."
    )
    keep_exports_days: int = days(
        365, "an export is listed after its end; the last successful one to a destination stays."
    )
    keep_store_runs_days: int = days(
        365, "checks and collections of the model store, and what checks found, are listed after their end."
    )
    keep_evidence_days: int = days(365, "the points of a release's evidence chart are kept after its end.")
