"""One file for each engine that is known: its entry in `serving.engines.registry`."""
