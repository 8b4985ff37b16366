from common import app_config


class ReleasesConfig(app_config.WithManifest):
    name = "releases"
