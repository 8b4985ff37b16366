"""Runs model workers as Pods of Kubernetes clusters, one Deployment for each of ours."""
