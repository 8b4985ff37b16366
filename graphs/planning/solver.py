"""Mixed-integer programs, solved by HiGHS within an amount of work and not of time."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

MOST_NODES = 100
ENOUGH_GAP = 0.005
RANDOM_SEED = 1


@dataclass(slots=True)
class LinearProgram:
    """Columns and rows by name, maximised. It is solved the same way every time."""

    columns: list[tuple[float, float, float, bool]] = field(default_factory=list)
    """Lower and upper bound, weight in the objective, whether it is whole."""
    rows: list[tuple[float, float, dict[int, float]]] = field(default_factory=list)

    def add(self, *, weight: float = 0.0, low: float = 0.0, high: float = inf, is_whole: bool = False) -> int:
        self.columns.append((low, high, weight, is_whole))
        return len(self.columns) - 1

    def weigh(self, column: int, weight: float) -> None:
        """Change a column's weight in the objective."""
        low, high, _, is_whole = self.columns[column]
        self.columns[column] = (low, high, weight, is_whole)

    def limit(self, terms: Mapping[int, float], *, low: float = -inf, high: float = inf) -> None:
        if terms:
            self.rows.append((low, high, dict(terms)))


@dataclass(frozen=True, slots=True)
class ProgramSolution:
    """Solution of a program. `values`: empty: none is feasible. `bound`: highest objective that may exist."""

    values: tuple[float, ...]
    objective: float
    bound: float
    is_infeasible: bool


def solve(program: LinearProgram, *, nodes: int = MOST_NODES, is_relaxed: bool = False) -> ProgramSolution:
    """Maximise the program. is_relaxed: as if no column were whole."""
    # numpy and HiGHS take 60 MB that only planning needs.
    import highspy

    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(program.columns), len(program.rows)
    lp.col_lower_ = [column[0] for column in program.columns]
    lp.col_upper_ = [column[1] for column in program.columns]
    lp.col_cost_ = [column[2] for column in program.columns]
    lp.row_lower_ = [row[0] for row in program.rows]
    lp.row_upper_ = [row[1] for row in program.rows]
    lp.sense_ = highspy.ObjSense.kMaximize
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    starts: list[int] = [0]
    indices: list[int] = []
    values: list[float] = []
    for _, _, terms in program.rows:
        indices += terms.keys()
        values += terms.values()
        starts.append(len(indices))
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = starts, indices, values
    if not is_relaxed:
        kinds = highspy.HighsVarType
        lp.integrality_ = [kinds.kInteger if column[3] else kinds.kContinuous for column in program.columns]
    engine = highspy.Highs()  # type: ignore[no-untyped-call]
    for option, value in (
        ("output_flag", False),
        ("threads", 1),
        ("random_seed", RANDOM_SEED),
        ("mip_max_nodes", nodes),
        ("mip_rel_gap", ENOUGH_GAP),
    ):
        engine.setOptionValue(option, value)
    engine.passModel(lp)
    engine.run()
    info, status = engine.getInfo(), engine.getModelStatus()
    states = highspy.HighsModelStatus
    is_infeasible = status in (states.kInfeasible, states.kUnboundedOrInfeasible)
    if info.primal_solution_status != int(highspy.SolutionStatus.kSolutionStatusFeasible):
        return ProgramSolution((), -inf, -inf if is_infeasible else inf, is_infeasible)
    found = float(info.objective_function_value)
    bound = found if is_relaxed else float(info.mip_dual_bound)
    return ProgramSolution(tuple(engine.getSolution().col_value), found, bound, is_infeasible=False)
