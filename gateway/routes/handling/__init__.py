"""The handlers of an operation: read and parse the body, call the service, send the answer."""
