"""The interface of the service for routes: the clients of its RPCs, and what they know of models and endpoints."""
