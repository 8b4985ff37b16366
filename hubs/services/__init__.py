"""What people do with sources, syncs and exports."""
