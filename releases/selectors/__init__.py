"""Named reads of plans, releases and services."""
