"""What operators reach: status, metrics, drain, and the observer of every request."""
