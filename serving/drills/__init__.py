"""Faults of GPUs that are played on a machine of a test cluster: `python -m serving.drills DIRECTORY ORDER`.

`ORDER` is JSON with the number of the `drill` and what is ordered:

- `{"drill": 12, "order": "play", "gpus": 8, "gpu": 3, "breaks": true, "kernel": ["NVRM: Xid (PCI:{bus}): 79,
  ..."], "nvml": {"lost": 1}}` plays what it names on that GPU; the settings of `nvml` are `machine.SETTINGS`.
- `{"drill": 12, "order": "repair", "action": "reset_gpu", "heals": true}` plays an action of the ladder.
- `{"drill": 12, "order": "check"}` reports, as a check Job does, whether the played GPUs are whole.
- `{"drill": 12, "order": "over"}` ends it.

Simulated lies in the directory, where the agent of the machine reads it: `kmsg` in the place of
/dev/kmsg, `machine.json` behind a library that nvidia-ml-py takes for libnvidia-ml. Nothing is done to the
machine itself, and what the agent tells of it says that it is of a drill.
"""
