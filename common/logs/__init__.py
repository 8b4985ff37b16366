"""What is logged: for whom and about what (`context`), without secrets (`redaction`), as text or as JSON."""
