"""What people fill in about services, releases and policies. Fields only: services decide."""
