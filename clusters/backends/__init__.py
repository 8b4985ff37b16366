"""Backends that run the workers of a cluster: a Protocol, and a package or module for each kind."""
