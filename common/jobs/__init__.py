"""Work that takes longer than a step: a job is started, observed, stopped and collected by steps of a row.

`spec` says what a job is, `runners` where it runs, `steps` how a row advances with it, `run` is the frame of
the jobs that are our own Python. What runs inside a job imports no Django: this package and `run` are free
of it.
"""
