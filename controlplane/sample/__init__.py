"""The sample: a small real language model, trained here from text that every Python brings along."""
