from common import app_config


class IdentityConfig(app_config.WithManifest):
    name = "identity"
    verbose_name = "Identity"
