from common import app_config


class OptimizationConfig(app_config.WithManifest):
    name = "optimization"
