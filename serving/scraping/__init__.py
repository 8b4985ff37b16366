"""Servers that send no heartbeat, read by their own metrics: a file for each, from its text to our fields."""
