"""Routes and middleware for operators: status, metrics, drain, and the observer of every request."""
