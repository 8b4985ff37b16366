"""Healing as data and pure functions: facts in, the next step and the refusals of guards out.

Standard library only, without a clock, files or a database: what was decided can be replayed, and any order
of events can be tried.
"""
