"""Parts of HTTP that all routes share: bodies, headers, replies, server-sent events."""
