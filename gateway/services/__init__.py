"""Every write to gateways and routes."""
