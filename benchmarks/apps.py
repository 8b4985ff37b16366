from common import app_config


class BenchmarksConfig(app_config.WithManifest):
    name = "benchmarks"
