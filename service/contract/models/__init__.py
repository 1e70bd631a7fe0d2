"""Models, endpoints and their load: conversions between values, messages and JSON."""
