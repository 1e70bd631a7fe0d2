"""The interceptors: one policy per file, applied to every call of the API."""
