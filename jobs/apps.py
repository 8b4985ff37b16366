from common import app_config


class JobsConfig(app_config.WithManifest):
    name = "jobs"
