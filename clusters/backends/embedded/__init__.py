"""This machine as a cluster: model workers as programs of the supervisord that runs the whole stack."""
