"""Task graphs: an application as a DAG of tasks, run serially for debugging or pipelined over processes.

`program` is what users write, `description` and `plan` are the documents that the control plane and the
executor share, `executor` runs a plan. `slipway.graph` has the public names.
"""
