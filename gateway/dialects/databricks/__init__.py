"""Databricks' Foundation Model APIs, and its REST API of endpoints."""
