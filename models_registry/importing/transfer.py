"""What every transfer of files does: it works on several at once, and tells how far it has come."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TypeVar

THREADS = 2
REPORT_EVERY_SECONDS = 0.5

F = TypeVar("F")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ImportProgress:
    """The progress of an import. The rate is the mean while bytes arrive, and 0 while none do."""

    bytes_done: int
    bytes_total: int
    files_done: int
    files_total: int
    bytes_per_second: int
    reason: str = ""
    """Why nothing comes at the moment."""


class TransferMeter:
    """Counts bytes and files from several threads, and reports twice a second."""

    def __init__(self, *, size_bytes: int, files: int, report: Callable[[ImportProgress], None]) -> None:
        self._total = (size_bytes, files)
        self._report = report
        self._lock = threading.Lock()
        self._bytes = self._files = self._found = 0
        self._reason = ""
        self._began = self._reported = self._halted = time.monotonic()

    def count(self, size: int = 0, *, files: int = 0, always: bool = False) -> None:
        with self._lock:
            self._bytes += size
            self._files += files
            self._tell(always=always)

    def find(self, size: int) -> None:
        """Bytes that need not be moved any more: they count as done and not as speed."""
        with self._lock:
            self._found += size
            self._tell(always=False)

    def say(self, reason: str) -> None:
        """Why nothing comes at the moment; empty when it comes again."""
        with self._lock:
            if reason != self._reason:
                now = time.monotonic()
                if not self._reason:
                    self._halted = now
                elif not reason:
                    # The wait was no part of the transfer: it would make the rest look slower than it is.
                    self._began += now - self._halted
                self._reason = reason
                self._tell(always=True)

    def _tell(self, *, always: bool) -> None:
        now = time.monotonic()
        if now - self._reported >= REPORT_EVERY_SECONDS or always:
            self._reported = now
            rate = 0 if self._reason else int(max(0, self._bytes) / max(now - self._began, 0.001))
            done = self._bytes + self._found
            self._report(
                ImportProgress(done, self._total[0], self._files, self._total[1], rate, self._reason)
            )


def side_by_side(work: Callable[[F], T], files: Sequence[F], *, threads: int) -> list[T]:
    """`work` for each file, in order; after the first failure nothing new is begun, and it is raised."""
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(work, file) for file in files]
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        if any(future.exception() for future in done):
            pool.shutdown(cancel_futures=True)
        return [future.result() for future in futures if not future.cancelled()]
