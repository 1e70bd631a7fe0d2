"""Run and scale replicas of the service on a Ray cluster, and publish their addresses to Envoy."""
