from capacity.models.groups import GroupSwitch as GroupSwitch
from capacity.models.groups import ServiceGroups as ServiceGroups
from capacity.models.pools import CapacityPlan as CapacityPlan
from capacity.models.pools import CapacityStop as CapacityStop
from capacity.models.pools import PlanRows as PlanRows
from capacity.models.pools import Pool as Pool
from capacity.models.pools import PoolMember as PoolMember
from capacity.models.pools import PoolRows as PoolRows
