"""The console's pages of releases, services and plans."""
