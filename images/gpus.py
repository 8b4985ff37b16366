"""GPUs by the names that `nvidia-smi` gives them."""

import re

# developer.nvidia.com/cuda-gpus and .../cuda-legacy-gpus; the first pattern that a name matches counts.
_CAPABILITIES = tuple(
    (re.compile(pattern), capability)
    for pattern, capability in (
        (r"\bG?B300\b", "10.3"),
        (r"\b(G?B200|B100)\b", "10.0"),
        (r"\bGB10\b", "12.1"),
        (r"\bRTX PRO \d{4}\b|\bRTX 50[5-9]0\b", "12.0"),
        (r"\b(GH200|H100|H200|H800|H20)\b", "9.0"),
        (r"\bL(2|4|20|40|40S|40G)\b|\bRTX 40[5-9]0\b|\bRTX \d{4}\b.*\bADA\b", "8.9"),
        (r"\bORIN\b", "8.7"),
        (r"\bA(2|10|10G|10M|16|40)\b|\bRTX A\d{3,4}\b|\bRTX 30[5-9]0\b", "8.6"),
        (r"\bA(30|30X|100|100X|800)\b", "8.0"),
        (r"\bT4G?\b|\b(QUADRO|TITAN) RTX\b|\bRTX 20[5-8]0\b|\bGTX 16[56]0\b", "7.5"),
        (r"\bV100S?\b|\bTITAN V\b|\bGV100\b", "7.0"),
        (r"\bG?P100\b", "6.0"),
        (r"\bP(4|6|40)\b|\bGTX 10[1-8]0\b|\bTITAN XP?\b", "6.1"),
    )
)
_MAKERS = {"nvidia", "tesla", "geforce"}


def compute_capability(name: str) -> str:
    """Return the compute capability, such as `9.0` for `NVIDIA H100 80GB HBM3`; a capability stands for
    itself; empty: not known.
    """
    if re.fullmatch(r"\d{1,2}\.\d", name.strip()):
        return name.strip()
    upper = name.upper()
    return next((capability for pattern, capability in _CAPABILITIES if pattern.search(upper)), "")


def is_same(named: str, gpu: str) -> bool:
    """Whether a GPU is of the kind that somebody named: `H100` and `NVIDIA H100 80GB HBM3`."""
    words = _words(named)
    return bool(words) and words <= _words(gpu)


def _words(name: str) -> set[str]:
    return set(re.split(r"[\s-]+", name.lower().strip())) - _MAKERS - {""}
