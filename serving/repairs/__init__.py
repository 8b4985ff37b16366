"""Runs the commands of a repair on the machine itself: `python -m serving.repairs JSON`.

`JSON` is a list of `{"argv": [...], "seconds": 120, "always": false, "may_fail": false}`, run one after the
other. In a container they run in the namespaces of the machine (`nsenter`), which takes a privileged one that
shares its process ids. Prints one line of JSON, and leaves it where a job of the control plane leaves its
result; ends with 1 when a command that counts has failed.
"""
