"""Services of the users' own code: CPU processes take requests, GPU processes hold models.

The front (`front`) owns every client's connection and hands one request at a time to a CPU process, which
runs the handler and blocks on a GPU process for a model's answer. Nothing of the user's code runs in the
front, so a process that dies costs only what it was working on. `slipway.serve` has the public names.
"""
