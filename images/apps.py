from common import app_config


class ImagesConfig(app_config.WithManifest):
    name = "images"
