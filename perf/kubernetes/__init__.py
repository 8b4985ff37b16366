"""What a large Kubernetes cluster costs: `python -m perf.kubernetes [--machines 5000]` prints a table.

The API server's answers are made beforehand, in the size of real ones: machines with feature discovery, eight
GPUs and forty images, ten pods each. Measured is the own CPU and memory of the process that watches, of the
look that writes rows, and of one page of machines. Required: 2 KB of memory an object at the most; for ten
times as many objects no more than 1.5 times the CPU of each; looks and events take a tenth of a core.
"""
