"""What is sent after the deed: webhooks, and the heads of the audit record."""

from accounts.reconcilers.audit_heads import AuditExportReconciler
from accounts.reconcilers.webhooks import EndpointReconciler, EventReconciler

__all__ = ["AuditExportReconciler", "EndpointReconciler", "EventReconciler"]
