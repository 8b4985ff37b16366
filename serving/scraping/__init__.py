"""Servers that send no heartbeat, read by their own metrics: names in `serving.engines.registry`."""
