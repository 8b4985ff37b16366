from common import app_config


class TrustConfig(app_config.WithManifest):
    name = "trust"
    verbose_name = "Trust"
