"""Engines of a worker, and the list of all that are known (`serving.engines.registry`)."""
