from pydantic import Field
from pydantic_settings import BaseSettings

from common.setting_types import days


class Settings(BaseSettings):
    """Benchmarks"""

    benchmark_gpu_hours: float = Field(
        0,
        ge=0,
        description="GPU hours that the benchmarks of one team may take in 30 days; one that could take more "
        "is refused. 0: as many as their budgets say.",
    )
    benchmark_service_rate: float = Field(
        5,
        ge=0,
        description="Requests per second that a benchmark may send to a running service at most; 0: none are "
        "loaded.",
    )
    benchmark_resources_as: str = Field(
        "",
        description="Account whose rights custom resources of kind Benchmark in clusters order with "
        "(docs/BENCHMARKS.md). Empty: none are read.",
    )
    keep_benchmark_records_days: int = days(90, "the records of a benchmark's requests are kept.")
