"""Why the scheduler found no machine for a pod, in words that say what to do."""

import re
from collections.abc import Sequence

_COUNTED = re.compile(r"(\d+) (.+)")
_AVAILABLE = re.compile(r"0/(\d+) nodes are available: (.*)", re.DOTALL)
_AFTERWORD = re.compile(r"\.? ?(no new claims to deallocate|preemption: ).*", re.DOTALL)
_SPLIT = re.compile(r", (?=\d+ )")
"""A new cause begins with its count; commas inside one, as between taints, do not."""

_CAUSES: Sequence[tuple[re.Pattern[str], str]] = (
    (re.compile(r"Insufficient (\S+)"), "too little {0} free on {count}"),
    (re.compile(r"Too many pods"), "{count} with no room for another pod"),
    (
        re.compile(r"node\(s\) had untolerated taints?\(?s?\)? ?\{?([^}]*)\}?"),
        "{count} with taints that it does not tolerate {0}",
    ),
    (
        re.compile(r"node\(s\) didn't match Pod's node affinity/selector"),
        "{count} without the labels that it asks for",
    ),
    (
        re.compile(r"node\(s\) didn't match pod topology spread constraints.*"),
        "{count} left out by its spread rules",
    ),
    (
        re.compile(r"node\(s\) didn't (?:match|satisfy) .*pod (?:anti-)?affinity.*"),
        "{count} left out by affinity to other pods",
    ),
    (re.compile(r"node\(s\) were unschedulable"), "{count} cordoned"),
    (
        re.compile(r"node\(s\) had volume node affinity conflict"),
        "{count} from which its volume cannot be reached",
    ),
    (re.compile(r"node\(s\) didn't have free ports.*"), "{count} where its port is taken"),
    (re.compile(r"node\(s\) (?:had|were|are) (.+)"), "{count}: {0}"),
)
_NO_CLAIM = re.compile(r'persistentvolumeclaim "([^"]+)" not found.*', re.DOTALL)


def why_unschedulable(message: str) -> str:
    """Explain the message of a pod's condition PodScheduled; unknown parts stay in the scheduler's words."""
    whole = _AVAILABLE.fullmatch(message.strip())
    if whole is None:
        return f"No machine was found for it: {message.strip()}"
    machines, causes = int(whole[1]), _AFTERWORD.sub("", whole[2]).strip().rstrip(".")
    if claim := _NO_CLAIM.fullmatch(causes):
        return f"Its volume claim {claim[1]} does not exist."
    told = [_told(cause.strip()) for cause in _SPLIT.split(causes)]
    none = (
        "There is no machine in the cluster"
        if machines == 0
        else f"None of the {_machines(machines)} can take it"
    )
    return f"{none}: {'; '.join(told)}."


def _told(cause: str) -> str:
    found = _COUNTED.fullmatch(cause)
    if found is None:
        return cause
    count = _machines(int(found[1]))
    for pattern, words in _CAUSES:
        if matched := pattern.fullmatch(found[2]):
            return words.format(*(group or "" for group in matched.groups()), count=count).strip()
    return cause


def _machines(count: int) -> str:
    return f"{count} machine{'' if count == 1 else 's'}"
