from common import app_config


class ObjectivesConfig(app_config.WithManifest):
    name = "objectives"
