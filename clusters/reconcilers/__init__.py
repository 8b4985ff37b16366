"""Reconcilers of clusters, deployments, machines and drains."""
