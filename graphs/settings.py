from pydantic import Field
from pydantic_settings import BaseSettings


class Settings(BaseSettings):
    """Task graphs"""

    graph_cores: float = Field(
        0,
        ge=0,
        description="Cores that the active plans of one team's graphs may keep busy together; a plan beyond "
        "them does not start. 0: no limit.",
    )
    graph_memory_gib: float = Field(
        0,
        ge=0,
        description="GiB of memory that the active plans of one team's graphs may hold. 0: no limit.",
    )
    graph_pending_items: int = Field(
        0,
        ge=0,
        description="Items that may wait before the workers of one team's graphs, which share them evenly; "
        "what comes beyond them is answered 429. 0: no limit.",
    )
