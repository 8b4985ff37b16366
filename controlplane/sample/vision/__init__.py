"""The vision sample: a small classifier of drawn shapes, as a service of its own code."""
