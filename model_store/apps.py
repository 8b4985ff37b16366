from common import app_config


class ModelStoreConfig(app_config.WithManifest):
    name = "model_store"
    verbose_name = "Store"
