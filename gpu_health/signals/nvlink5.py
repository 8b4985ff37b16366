"""What NVIDIA's table "XID 144-150 Decode" says of NVLink5's errors: its data center recovery action.

Of the Xid catalog of 2025-10-29, https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html. Rows
are found by the Xid, the unit that the line names, the sub-code (bits 20 to 25 of the first register) and the
error status (the second register). XID_154_EVAL is `restart_app`: an Xid 154 that comes along is judged by
itself.
"""

from collections.abc import Mapping

IGNORE = "ignore"
SUPPORT = "support"
"""Nothing at once (IGNORE); support is asked if it goes on."""
RESTART_APP = "restart_app"
RESET_GPU = "reset_gpu"
UNLISTED = "unlisted"
"""The table has no such row."""
BUCKETS = (IGNORE, SUPPORT, RESTART_APP, RESET_GPU)
"""The strictest comes last."""

_SOFTWARE = {0x8000_0000: SUPPORT}
_TLW = {0x1: IGNORE, 0x2: SUPPORT, 0x4: RESET_GPU}
_BY_BIT: Mapping[tuple[int, str], Mapping[int, str]] = {
    (144, "saw_mvb"): {
        **{0x1: SUPPORT, 0x2: RESET_GPU, 0x4: IGNORE},
        **{0x8: SUPPORT, 0x10: RESET_GPU, 0x20: IGNORE},
    },
    (145, "rlw_ctrl"): _SOFTWARE,
    (145, "rlw_remap"): {
        **dict.fromkeys((0x1, 0x2, 0x4, 0x8, 0x10, 0x20), RESTART_APP),
        **{0x40: RESET_GPU, 0x80: RESET_GPU, 0x100: IGNORE, 0x200: IGNORE},
        **_SOFTWARE,
    },
    (145, "rlw_rspcol"): {0x1: IGNORE, 0x2: RESET_GPU, **_SOFTWARE},
    (145, "rlw_rxpipe"): {0x1: SUPPORT, 0x2: SUPPORT, 0x4: SUPPORT, 0x8: SUPPORT, **_SOFTWARE},
    (145, "rlw_src_track"): {
        **{0x1: RESET_GPU, 0x2: IGNORE, 0x4: RESTART_APP, 0x8: RESTART_APP},
        **{0x10: RESET_GPU, 0x20: RESET_GPU},
        **_SOFTWARE,
    },
    (145, "rlw_tagstate"): {
        **{0x1: IGNORE, 0x2: RESET_GPU, 0x1_0000: IGNORE, 0x2_0000: RESET_GPU, 0x10_0000: RESET_GPU},
        **_SOFTWARE,
    },
    **{
        (146, name): {**_TLW, **_SOFTWARE}
        for name in (
            *("tlw_ctrl", "tlw_rx", "tlw_rx_pipe0", "tlw_rx_pipe1", "tlw_tx", "tlw_tx_pipe0"),
            "tlw_tx_pipe1",
        )
    },
    (147, "trex"): {0x1: SUPPORT, **_SOFTWARE},
    (148, "nvlpw_ctrl"): _SOFTWARE,
    (148, "nvlpw"): _SOFTWARE,
}
"""Of sub-code 0: each bit of the error status is a row."""
_BY_VALUE: Mapping[tuple[int, str], Mapping[int, str]] = {
    (149, "netir_ber_event"): dict.fromkeys(range(4), SUPPORT),
    (149, "netir_mfde_event"): {0x1: RESET_GPU, 0x3: IGNORE, 0x4: RESET_GPU, 0x5: RESET_GPU, 0x7: RESET_GPU},
    (150, "mse_degraded"): {0x0: RESET_GPU, 0xFFFF_FFFF: RESET_GPU},
    (150, "mse_watchdog"): {0x0: RESET_GPU},
}
"""Of sub-code 0: the error status is a number."""
_RESETS_LINK = (
    *(0b000000, 0b000001, 0b000010, 0b000100, 0b001010, 0b001111, 0b010000, 0b010001, 0b010010, 0b010101),
    *(0b010110, 0b100000, 0b100001, 0b100010, 0b100011, 0b100100, 0b100101, 0b101010, 0b101011),
)
_BY_SUB_CODE: Mapping[tuple[int, str], Mapping[int, str]] = {
    (149, "netir"): {0: RESET_GPU},
    (149, "netir_int"): {0: RESET_GPU},
    **{
        (149, name): {**dict.fromkeys(_RESETS_LINK, RESET_GPU), 0b100110: SUPPORT, 0b101000: SUPPORT}
        for name in ("netir_link_evt", "netir_link_down")
    },
}
"""Whatever the error status is."""
_RXPIPE = 6


def bucket(xid: int, event: str, intrinfo: int, error_status: int) -> str:
    """Return one of BUCKETS, or UNLISTED. `event`: the unit as the line names it; of several errors at
    once the strictest.
    """
    place, sub_code = (xid, event.lower().replace(" ", "_")), sub_code_of(intrinfo)
    if place in _BY_SUB_CODE:
        return _BY_SUB_CODE[place].get(sub_code, UNLISTED)
    if sub_code:
        return UNLISTED
    if place in _BY_VALUE:
        return _BY_VALUE[place].get(error_status, UNLISTED)
    rows = _BY_BIT.get(place, {})
    found = [said for bit, said in rows.items() if error_status & bit]
    if not found:
        return UNLISTED
    if place == (145, "rlw_rxpipe") and error_status & 0x7 and _asks_for_more(intrinfo):
        return RESET_GPU
    return max(found, key=BUCKETS.index)


def sub_code_of(intrinfo: int) -> int:
    """Bits 20 to 25 of the first register."""
    return (intrinfo >> 20) & 0x3F


def _asks_for_more(intrinfo: int) -> bool:
    """The table's "decode for action 2": bit 7 from r575 on, bit 10 before."""
    if intrinfo & 0x7F == _RXPIPE:
        return bool(intrinfo & 0x80)
    return (intrinfo >> 5) & 0x1F == _RXPIPE and bool(intrinfo & 0x400)
