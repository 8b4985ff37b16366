"""The connection between a CPU process and a GPU process: messages over a Unix socket, arrays by shared
memory.

Each end owns the arena that it writes; the other maps it. What finds no room there travels inside the
message.
"""

import errno
import itertools
import os
import socket
import struct
from collections import deque
from collections.abc import Iterator
from enum import IntEnum
from typing import Any, NamedTuple

from serving.runtime.arena import Arena, ArenaPlace, ArenaUnavailable, ArenaView, Bytes
from serving.runtime.packing import pack, unpack

ARENA_BYTES = 64 * 2**20
NO_DEADLINE = 2**62
_HEAD = struct.Struct("<QBxHxxxxQqqq")
_PLACE = struct.Struct("<qQQ")
_INLINE = -1
_HELLO = struct.Struct("<Q")
_READ_BYTES = 65_536


class LinkMessageKind(IntEnum):
    CALL = 1
    """Figures: deadline, priority, when it was sent; value: (method, arguments)."""
    STREAM = 2
    CANCEL = 3
    RESULT = 4
    """Figures: nanoseconds in the queue, nanoseconds at work, size of the batch."""
    ITEM = 5
    END = 6
    ERROR = 7
    """Value: (status, title, detail)."""


class LinkClosed(Exception):
    """The other end is gone."""


class LinkMessage(NamedTuple):
    kind: int
    id: int
    figures: tuple[int, int, int]
    pickled: memoryview
    beside: list[Any]

    def load(self) -> Any:
        """The value; its arrays keep their blocks until they are gone."""
        return unpack(self.pickled, self.beside)


class Link:
    """An end of a link. `descriptor` is what to poll; not for use by several threads."""

    def __init__(self, connected: socket.socket, arena_bytes: int = ARENA_BYTES) -> None:
        """`arena_bytes` 0: everything travels inside messages."""
        self._socket = connected
        self.descriptor = connected.fileno()
        self._unsent: deque[memoryview] = deque()
        self._unread = bytearray()
        self._theirs: ArenaView | None = None
        self.arena: Arena | None = None
        try:
            self.arena = Arena(arena_bytes) if arena_bytes else None
        except ArenaUnavailable:
            self.arena = None

    def greet(self) -> None:
        """Gives the other end our arena. The first thing that is sent."""
        shown = [self.arena.descriptor] if self.arena else []
        size = self.arena.size if self.arena else 0
        try:
            socket.send_fds(self._socket, [_HELLO.pack(size)], shown)
        except OSError as error:
            raise LinkClosed(str(error)) from None

    def be_greeted(self) -> None:
        """The first thing that is read; blocks. An arena that cannot be mapped is a broken connection: its
        owner would go on to point into it."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self._socket, _HELLO.size, 1)
        except OSError as error:
            raise LinkClosed(str(error)) from None
        if len(data) < _HELLO.size:
            raise LinkClosed("it hung up")
        (size,) = _HELLO.unpack(data)
        if size:
            try:
                self._theirs = ArenaView(descriptors[0], size)
            except (ArenaUnavailable, IndexError) as error:
                raise LinkClosed(str(error)) from None

    @property
    def their_arena(self) -> ArenaView | None:
        return self._theirs

    def send(
        self, kind: LinkMessageKind, id: int, value: object = None, figures: tuple[int, int, int] = (0, 0, 0)
    ) -> None:
        """On a socket that does not block, keeps what the other end does not take yet (`flush`). Raises
        LinkClosed, and whatever pickling the value raises."""
        pickled, beside = (b"", []) if value is None else pack(value)
        places: list[bytes] = []
        inline: list[Bytes] = []
        for data in beside:
            place = self.arena.share(data) if self.arena else None
            if place is None:
                inline.append(data)
                places.append(_PLACE.pack(_INLINE, 0, data.nbytes))
            else:
                places.append(_PLACE.pack(*place))
        size = len(places) * _PLACE.size + len(pickled) + sum(data.nbytes for data in inline)
        head = _HEAD.pack(size, kind, len(places), id, *figures)
        self._put(memoryview(b"".join((head, *places, pickled))))
        for data in inline:
            self._put(memoryview(data))  # type: ignore[arg-type]

    def _put(self, data: memoryview) -> None:
        """Sends it, or keeps a copy of the rest."""
        if not self._unsent:
            data = self._sent(data)
        if data:
            self._unsent.append(memoryview(bytes(data)))

    def _sent(self, data: memoryview) -> memoryview:
        """Send, and return what could not be sent."""
        while data:
            try:
                data = data[self._socket.send(data) :]
            except BlockingIOError:
                break
            except OSError as error:
                raise LinkClosed(error.strerror or str(error)) from None
        return data

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    def flush(self) -> None:
        while self._unsent:
            left = self._sent(self._unsent[0])
            if left:
                self._unsent[0] = left
                return
            self._unsent.popleft()

    def read(self) -> list[LinkMessage]:
        """All whole messages that have come; blocks for the first bytes where the socket does. Raises
        LinkClosed."""
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return []
        except OSError as error:
            raise LinkClosed(error.strerror or str(error)) from None
        if not data:
            raise LinkClosed("it hung up")
        if not self._unread:
            size = _HEAD.unpack_from(data)[0] if len(data) >= _HEAD.size else -1
            if len(data) == _HEAD.size + size:
                return [self._message(memoryview(data))]
        self._unread += data
        return list(self._whole())

    def _whole(self) -> Iterator[LinkMessage]:
        while len(self._unread) >= _HEAD.size:
            end = _HEAD.size + _HEAD.unpack_from(self._unread)[0]
            if len(self._unread) < end:
                return
            # Its own bytes: arrays inside may be written to, and outlive the next read.
            whole = self._unread[:end]
            del self._unread[:end]
            yield self._message(memoryview(whole))

    def _message(self, data: memoryview) -> LinkMessage:
        _, kind, count, id, *figures = _HEAD.unpack_from(data)
        at = _HEAD.size
        places = [_PLACE.unpack_from(data, at + index * _PLACE.size) for index in range(count)]
        at += count * _PLACE.size
        inline = len(data) - sum(length for block, _, length in places if block == _INLINE)
        pickled, at = data[at:inline], inline
        beside: list[Any] = []
        for block, offset, length in places:
            if block == _INLINE:
                beside.append(data[at : at + length])
                at += length
            elif self._theirs is None:
                raise LinkClosed("it pointed into an arena that it has not shown")
            else:
                beside.append(self._theirs.open(ArenaPlace(block, offset, length)))
        return LinkMessage(kind, id, tuple(figures), pickled, beside)

    def close(self) -> None:
        self._socket.close()
        if self.arena is not None:
            self.arena.close()


def listener() -> socket.socket:
    """On an address that the kernel chooses and that is no file: nothing is left when its holders die."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind("")
    listening.listen(256)
    return listening


def connect(address: bytes, arena_bytes: int = ARENA_BYTES) -> Link:
    """Raises LinkClosed when nobody listens, or somebody else's process does."""
    connecting = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connecting.connect(address)
        check_peer(connecting)
    except OSError as error:
        connecting.close()
        raise LinkClosed(error.strerror or str(error)) from None
    return Link(connecting, arena_bytes)


def check_peer(connected: socket.socket) -> None:
    """An address without a file has no permissions: other users are turned away here. A worker that is root
    has made the listening socket of a model that runs as another user. Raises OSError."""
    credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    _, user, _ = struct.unpack("3i", credentials)
    if user not in (os.geteuid(), 0):
        raise OSError(errno.EPERM, f"a process of user {user}, which is not ours, is at the other end")


ids = itertools.count(1)
