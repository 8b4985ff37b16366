"""The parts of Envoy's v3 API that we write, as types."""
