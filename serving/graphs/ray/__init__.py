"""Ray as an executor of task graphs: Ray Data over many items, Ray Serve for single ones.

`environment` has the packages, `sizes` turns a plan into resources of Ray, `stages` are the steps of a run
over many items, `walk` is one item. Only `data`, `online` and `connection` import Ray; they run in its
environment.
"""
