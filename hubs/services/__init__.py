"""What people do with sources, syncs and exports."""

from hubs.services.exports import cancel_export, pause_export, resume_export, retry_export, start_export
from hubs.services.notices import new_notice_secret, take_notice
from hubs.services.syncs import (
    cancel_sync,
    change_hub_source,
    create_hub_source,
    delete_hub_source,
    forget_hub_sources,
    pause_sync,
    resume_sync,
    retry_sync,
    start_sync,
)

__all__ = [
    "cancel_export",
    "cancel_sync",
    "change_hub_source",
    "create_hub_source",
    "delete_hub_source",
    "forget_hub_sources",
    "new_notice_secret",
    "pause_export",
    "pause_sync",
    "resume_export",
    "resume_sync",
    "retry_export",
    "retry_sync",
    "start_export",
    "start_sync",
    "take_notice",
]
