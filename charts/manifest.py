"""Charts over time have pages, which those of services, machines and workers lead to."""

from common.declared import AppManifest

MANIFEST = AppManifest()
