"""Every write of capacity."""

from capacity.services.groups import remove_groups as remove_groups
from capacity.services.groups import set_groups as set_groups
from capacity.services.layouts import set_layout as set_layout
from capacity.services.layouts import undo_layout as undo_layout
from capacity.services.policies import set_policy as set_policy
from capacity.services.pools import apply_plan as apply_plan
from capacity.services.pools import change_pool as change_pool
from capacity.services.pools import create_pool as create_pool
from capacity.services.pools import propose_defragmentation as propose_defragmentation
from capacity.services.pools import reject_plan as reject_plan
from capacity.services.pools import remove_membership as remove_membership
from capacity.services.pools import remove_pool as remove_pool
from capacity.services.pools import resume as resume
from capacity.services.pools import set_members as set_members
from capacity.services.pools import set_membership as set_membership
from capacity.services.pools import stop as stop
from capacity.services.pools import undo_plan as undo_plan
from capacity.services.queues import ask_for_worker as ask_for_worker
from capacity.services.queues import remove_queue as remove_queue
from capacity.services.queues import set_queue as set_queue
