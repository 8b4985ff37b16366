from common import app_config


class ModelsRegistryConfig(app_config.WithManifest):
    name = "models_registry"
    verbose_name = "Models"
