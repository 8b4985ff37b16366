"""Releases while processes are killed and messages are lost: `python -m perf.under_fire`."""
