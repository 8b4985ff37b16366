"""What people fill in about models and versions. Fields only: services decide."""
