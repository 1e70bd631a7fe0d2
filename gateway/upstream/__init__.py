"""The gateway's calls to the service: channels, deadlines, retries, resumed streams and their errors."""
