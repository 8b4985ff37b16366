"""Every write of clusters and deployments, each with its audit row; and the door for heartbeats."""
