"""From tokens to the text that may be shown: whole characters, and nothing from a stop string on."""

from collections.abc import Callable, Sequence

from serving.openai import Message

_UNFINISHED = "�"
PLAIN_CHAT_STOP = "\nUser:"
_SPEAKERS = {
    "system": "System",
    "developer": "System",
    "user": "User",
    "assistant": "Assistant",
    "tool": "Tool",
}


def plain_chat(messages: Sequence[Message]) -> str:
    """The prompt for a model whose tokenizer has no chat template.

    One paragraph `Speaker: content` a message (System, User, Assistant, Tool), blank lines between, and
    `Assistant:` at the end; the answer ends where the model begins a line `User:`.
    """
    return "".join(f"{_SPEAKERS[message.role]}: {message.content}\n\n" for message in messages) + "Assistant:"


class Unrolling:
    """Text of a growing list of tokens, as deltas of whole characters.

    Decoding token by token loses characters that span tokens and the spaces that some tokenizers put
    between words. So each delta is the difference of two decodings from a common start a little back,
    withheld while it ends in an unfinished character (as in Text Generation Inference's decode_token).
    """

    def __init__(self, decode: Callable[[list[int]], str]) -> None:
        self._decode = decode
        self._ids: list[int] = []
        self._start = 0
        self._shown = 0

    def feed(self, token: int) -> str:
        self._ids.append(token)
        return self._delta(final=False)

    def flush(self) -> str:
        """Return what is left, though its last character may be unfinished."""
        return self._delta(final=True)

    def _delta(self, *, final: bool) -> str:
        before = self._decode(self._ids[self._start : self._shown])
        now = self._decode(self._ids[self._start :])
        if len(now) <= len(before) or (now.endswith(_UNFINISHED) and not final):
            return ""
        self._start, self._shown = self._shown, len(self._ids)
        return now[len(before) :]


class StopWindow:
    """Lets text through up to the first stop string, withholding only what may be the beginning of one."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = stops
        self._longest = max((len(stop) for stop in stops), default=0)
        self._held = ""
        self.stopped = False

    def feed(self, text: str) -> str:
        if self.stopped or not self._stops:
            return "" if self.stopped else text
        self._held += text
        # The one complete first wins, however the text was cut into pieces; of several, the longest.
        found = [(at + len(stop), at) for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if found:
            self.stopped = True
            shown, self._held = self._held[: min(found)[1]], ""
            return shown
        keep = self._possible_beginning()
        shown, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return shown

    def flush(self) -> str:
        shown, self._held = self._held, ""
        return shown

    def _possible_beginning(self) -> int:
        for length in range(min(self._longest - 1, len(self._held)), 0, -1):
            tail = self._held[-length:]
            if any(stop.startswith(tail) for stop in self._stops):
                return length
        return 0
