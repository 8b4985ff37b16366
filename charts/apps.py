from common import app_config


class ChartsConfig(app_config.WithManifest):
    name = "charts"
