from common import app_config


class GpuHealthConfig(app_config.WithManifest):
    name = "gpu_health"
