"""Prompts of a wished length without a tokenizer: words, as many as the server itself counts tokens."""

import random
from dataclasses import dataclass

from benchmarks.load.schedule import PlannedRequest

_TEXT = """
the of to and a in is it you that he was for on are with as his they at be this from have or by one had
not but what all were when we there can an your which their said if do will each about how up out them
then she many some so these would other into has more her two like him see time could no make than first
been its who now people my made over did down only way find use may water long little very after words
called just where most know get through back much before go good new write our used me man too any day
same right look think also around another came come work three word must because does part even place well
such here take why things help put years different away again off went old number great tell men say small
every found still between name should home big give air line set own under read last never us left end
along while might next sound below saw something thought both few those always looked show large often
together asked house world going want school important until form food keep children feet
"""
WORDS = tuple(_TEXT.split())


@dataclass(frozen=True, slots=True)
class TokenRatio:
    """Tokens that the server counts of a prompt: `fixed` of each, and `per_word` of each word."""

    fixed: float = 0.0
    per_word: float = 1.0

    @classmethod
    def measured(cls, one: tuple[int, int], other: tuple[int, int], *, words: int) -> "TokenRatio":
        """Return the ratio from (prompts, tokens) of the same words, cut into few prompts and into many."""
        fixed = (other[1] - one[1]) / (other[0] - one[0])
        per_word = (one[1] - one[0] * fixed) / words
        return cls() if per_word <= 0 else cls(fixed, per_word)

    def words(self, tokens: int) -> int:
        return max(1, round((tokens - self.fixed) / self.per_word))


def text_of(words: int, seed: int) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=words))  # noqa: S311  (no secret)


def prompt_of(request: PlannedRequest, ratio: TokenRatio, *, shared_prefix: float, prefix_seed: int) -> str:
    """Return a prompt unlike all others but for the shared prefix: a prefix cache helps only with that."""
    words = ratio.words(request.input_tokens)
    common = round(words * shared_prefix)
    own = text_of(words - common, request.seed)
    return f"{text_of(common, prefix_seed)} {own}" if common else own
