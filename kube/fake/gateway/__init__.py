"""A Gateway for the fake cluster: a controller that answers for its HTTPRoutes, and a real Envoy that does
what they say."""
