"""Whether a file is a kernel log: one of which nothing can be read must not look like a healthy one."""

from typing import BinaryIO

from gpu_health.signals.kernel_log import knows_form_of

LOOKED_AT = 1_000
"""Lines of a file, until one has the form of a kernel log."""


class LogForm:
    """A stream that is read through it, and what it then knows of its lines."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lines = 0
        self._is_known = False

    def read(self, size: int = -1) -> bytes:
        chunk = self._stream.read(size)
        if not self._is_known and self._lines < LOOKED_AT:
            lines = [line for line in chunk.splitlines() if line.strip()]
            self._lines += len(lines)
            self._is_known = any(map(knows_form_of, lines[:LOOKED_AT]))
        return chunk

    def problem(self, *, ignored: int, readings: int) -> str:
        """Why nothing was read, in words; empty: there was nothing to be seen."""
        if readings:
            return ""
        if ignored:
            return (
                f"{ignored} lines have the driver's words, but none is in a form that the kernel's lines are "
                "known to have: nothing was read. Give the output of dmesg, journalctl -k or /dev/kmsg."
            )
        if not self._lines:
            return "the log is empty: nothing was read."
        if not self._is_known:
            return "no line has the form of a kernel log: nothing was read."
        return ""
