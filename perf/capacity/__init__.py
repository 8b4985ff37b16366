"""How the rules of capacity do beside those of other tools: `python -m perf.capacity TABLE`.

Every figure comes from a simulation with seeds; all rules of a table meet the same load in one run.
"""
