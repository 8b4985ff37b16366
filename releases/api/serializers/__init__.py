"""What services, releases, plans and policies look like over REST."""
