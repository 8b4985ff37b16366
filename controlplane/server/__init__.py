"""`slipway-server`: one command per role of the control plane, in a unit file, a container or a terminal."""
