"""Named reads of sources, syncs and exports."""
