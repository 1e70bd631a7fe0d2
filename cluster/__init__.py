"""Replicas of the service on the nodes of a Ray cluster: started, counted, replaced, and told to Envoy."""
