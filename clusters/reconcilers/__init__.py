"""One step of a deployment, one look at a cluster."""
