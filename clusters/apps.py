from common import app_config


class ClustersConfig(app_config.WithManifest):
    name = "clusters"
