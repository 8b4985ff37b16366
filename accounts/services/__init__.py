"""Every write of people, teams, roles, tokens and webhooks, each with its audit row."""
