"""The interface of dialects: HTTP requests, requests to the service, and encoded answers."""
