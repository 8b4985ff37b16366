"""Envoy, told by files: it serves without the control plane, and finds its routes when it restarts."""
