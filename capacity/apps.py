from common import app_config


class CapacityConfig(app_config.WithManifest):
    name = "capacity"
