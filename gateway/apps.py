from common import app_config


class GatewayConfig(app_config.WithManifest):
    name = "gateway"
