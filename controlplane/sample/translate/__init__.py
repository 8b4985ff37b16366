"""The translation sample: product pictures whose text is translated in place, as a graph of tasks."""
