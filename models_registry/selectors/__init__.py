"""Named reads of the registry. Everything that takes an actor shows only what that actor may see."""
