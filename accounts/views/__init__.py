"""Signing in, the audit record, and settings: account, people, teams, tokens."""
