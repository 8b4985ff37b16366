"""The serving runtime beside its peers, each figure in one run: `python -m perf.serving
[hop|floor|batching|processes|gpu]`."""
