"""What a drill plays, as data: `scenarios.toml`. Which machines may be drilled, and how it goes, are rows."""
