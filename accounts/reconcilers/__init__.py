"""What is sent after the deed: webhooks, and the heads of the audit record."""
