"""Everything hostile that is held against the registry; `test_hostile` says what becomes of it."""
