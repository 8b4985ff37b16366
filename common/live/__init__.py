"""Live pages: what changed anywhere reaches every open page within a second; no slow one holds up another.

Two kinds of news over one socket per page (frames: docs/LIVE.md):

- values (the fleet's busy rates): a topic's `read` gives all that it shows as flat paths; each process keeps
  one numbered `LiveBoard` per followed topic, encodes its changes once, and each socket takes what it lacks;
- "look again" (a release moved on): `touch("release", 12)` after a commit, in whatever process.

Redis carries both between processes. Without it pages say so and stay open; nothing else depends on it.
"""
