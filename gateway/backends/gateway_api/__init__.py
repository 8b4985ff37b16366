"""Traffic by HTTPRoutes of a Gateway that a Kubernetes cluster has already (gateway.networking.k8s.io/v1)."""
