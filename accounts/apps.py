from common import app_config


class AccountsConfig(app_config.WithManifest):
    name = "accounts"
