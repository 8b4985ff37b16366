from common import app_config


class UsageConfig(app_config.WithManifest):
    name = "usage"
