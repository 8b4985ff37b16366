"""Who owns the machines can do more to them than their cluster: switch them off and on, replace them."""
