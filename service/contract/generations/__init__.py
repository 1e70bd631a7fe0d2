"""Chats, completions and text generations: requests to values, and events to messages.

For each, the stream's renderer and the fold of a stream into one response.
"""
