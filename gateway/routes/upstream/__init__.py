"""The interface of the service for routes: the client of its RPCs, and the choice of models and endpoints."""
