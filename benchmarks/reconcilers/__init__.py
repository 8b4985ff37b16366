"""How benchmarks, their runs, and the removal of workers that runs have left behind advance."""
