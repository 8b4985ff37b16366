from common import app_config


class FreezesConfig(app_config.WithManifest):
    name = "freezes"
