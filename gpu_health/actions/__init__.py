"""What a rung of a ladder does to a machine: a file per kind, `table.py` names them all."""
