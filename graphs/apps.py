from common import app_config


class GraphsConfig(app_config.WithManifest):
    name = "graphs"
