from common import app_config


class HubsConfig(app_config.WithManifest):
    name = "hubs"
    verbose_name = "Hubs"
