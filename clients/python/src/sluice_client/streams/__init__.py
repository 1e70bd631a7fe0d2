"""Streams of messages, synchronous and asynchronous, which are resumed after a connection is lost."""
