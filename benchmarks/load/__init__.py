"""Generation of load: what is sent when, by whom, and what came back, one record per request.

Runs as a process of its own, `python -m benchmarks.load`, and imports no Django.
"""
