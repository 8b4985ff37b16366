"""How long each check looks at each level."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Level:
    """Seconds per check. `dcgm_level`: of `dcgmi diag -r`, 0: it is not asked."""

    number: int
    matrix: float
    memory: float
    bandwidth: float
    load: float
    all_reduce: float
    dcgm_level: int = 0
    dcgm_limit: float = 0.0

    @property
    def limit(self) -> float:
        """After so many seconds a GPU that has not said everything hangs. The start of CUDA is in it."""
        return 60 + 2 * (self.matrix + self.memory + 2 * self.bandwidth + self.load)


LEVELS = {
    1: Level(1, matrix=2, memory=2, bandwidth=0.5, load=2, all_reduce=2),
    2: Level(2, matrix=30, memory=30, bandwidth=2, load=40, all_reduce=10, dcgm_level=2, dcgm_limit=600),
    3: Level(3, matrix=300, memory=240, bandwidth=5, load=270, all_reduce=60, dcgm_level=3, dcgm_limit=3_600),
}
"""About 15 seconds, 2 minutes, 15 minutes; what DCGM takes comes on top where it is installed."""
