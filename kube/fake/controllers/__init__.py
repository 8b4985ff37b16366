"""What acts on objects by itself in a cluster: coarse, but honest about order, conditions and who writes
what.

Assumed, not recorded: all that a kubelet says of a pod, and the lengths of its start and end.
"""
