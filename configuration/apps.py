from common import app_config


class ConfigurationConfig(app_config.WithManifest):
    name = "configuration"
