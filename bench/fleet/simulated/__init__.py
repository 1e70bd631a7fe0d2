"""The simulated fleet: replicas, caches, balancers, autoscaler, traffic and events."""
