"""How benchmarks, their runs, and the look for what runs have left behind advance."""
