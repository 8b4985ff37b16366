"""The provider that the installation names, if it names one."""

from django.conf import settings

from common.webhooks.destination import AllowedHosts
from gpu_health.providers.base import MachineProvider
from gpu_health.providers.command import CommandProvider
from gpu_health.providers.webhook import WebhookProvider


def machine_provider() -> MachineProvider | None:
    if settings.SLIPWAY_MACHINE_PROVIDER_COMMAND:
        return CommandProvider(settings.SLIPWAY_MACHINE_PROVIDER_COMMAND)
    if settings.SLIPWAY_MACHINE_PROVIDER_URL:
        return WebhookProvider(
            settings.SLIPWAY_MACHINE_PROVIDER_URL,
            secret=settings.SLIPWAY_MACHINE_PROVIDER_SECRET,
            allowed=AllowedHosts.of(settings.SLIPWAY_WEBHOOK_ALLOWED_HOSTS),
        )
    return None
