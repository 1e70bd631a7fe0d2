"""The simulated fleet: replicas, caches, balancers, autoscaler, traffic, and the events among them."""
