"""Kubernetes in our words: what is asked of a cluster's API, and what it may answer. Imports no app."""
