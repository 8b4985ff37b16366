from common import app_config


class AlertsConfig(app_config.WithManifest):
    name = "alerts"
