"""What services, releases, plans and policies look like over REST."""

from releases.api.serializers.plans import (
    NewPlanSerializer,
    PlanChangeSerializer,
    PlanSerializer,
)
from releases.api.serializers.policies import (
    TeamPolicyChangeSerializer,
    TeamPolicySerializer,
)
from releases.api.serializers.releases import (
    MoveSerializer,
    NewReleaseSerializer,
    OptionalReasonSerializer,
    ReasonSerializer,
    ReleaseRowSerializer,
    ReleaseSerializer,
)
from releases.api.serializers.services import (
    NewServiceSerializer,
    ReleaseHeaderSerializer,
    ReleaseKeySerializer,
    ServiceChangeSerializer,
    ServiceSerializer,
)
from releases.api.serializers.traffic import (
    NewSlowThresholdSerializer,
    SlowThresholdSerializer,
    TrafficQuerySerializer,
    TrafficSerializer,
)

__all__ = [
    "MoveSerializer",
    "NewPlanSerializer",
    "NewReleaseSerializer",
    "NewServiceSerializer",
    "NewSlowThresholdSerializer",
    "OptionalReasonSerializer",
    "PlanChangeSerializer",
    "PlanSerializer",
    "ReasonSerializer",
    "ReleaseHeaderSerializer",
    "ReleaseKeySerializer",
    "ReleaseRowSerializer",
    "ReleaseSerializer",
    "ServiceChangeSerializer",
    "ServiceSerializer",
    "SlowThresholdSerializer",
    "TeamPolicyChangeSerializer",
    "TeamPolicySerializer",
    "TrafficQuerySerializer",
    "TrafficSerializer",
]
