"""`python -m serving.checks gpu`: whether the GPUs of this machine compute and remember as they should.

Runs alone, on a machine without anything else of Slipway, and needs torch. It looks only: no setting of a GPU
is changed. A GPU that somebody else computes on is left alone.
"""
