"""What the console's pages show of releases, services and plans: data for templates and for live topics.

Nothing here writes, and nothing asks the gateway or a cluster: `releases.sampling` does, for those who watch.
"""
