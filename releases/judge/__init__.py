"""The canary judge: promote, roll back, or not enough evidence. Pure: data in, verdict out; no clock, no I/O.

A release reads the gateway's counts every few seconds, turns two readings into an `EvidenceIncrement`
(`increments_between`), adds it to its stored `JudgeEvidence` (`evidence.after`) and asks for a `verdict`.
"""
