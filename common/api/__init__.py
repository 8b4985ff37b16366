"""What every REST endpoint shares: problems, cursors, ETags, idempotent creations, the schema."""
