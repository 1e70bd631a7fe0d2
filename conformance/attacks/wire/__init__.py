"""HTTP/1.1, HTTP/2 and gRPC as bytes on a socket, so that invalid messages can be sent."""
