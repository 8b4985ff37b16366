from common.reconcile import LeaseLost, Operation, Reconciled


def check_fence(row: Reconciled, operation: Operation) -> None:
    """For effects that do harm when they come late. Raises LeaseLost when the row was claimed anew since."""
    if not type(row)._default_manager.filter(pk=row.pk, fence=operation.fence).exists():
        raise LeaseLost
