"""Every write to the registry."""
